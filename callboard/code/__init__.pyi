from .base import (
    CodeBlock as CodeBlock,
    CodeError as CodeError,
    CodeExecutor as CodeExecutor,
    CodeResult as CodeResult,
    CommandLineCodeResult as CommandLineCodeResult,
    ConfinementError as ConfinementError,
    FunctionsError as FunctionsError,
)
from .functions import (
    Alias as Alias,
    FunctionWithRequirements as FunctionWithRequirements,
    FunctionWithRequirementsStr as FunctionWithRequirementsStr,
    Import as Import,
    ImportFromModule as ImportFromModule,
    with_requirements as with_requirements,
)
from .local import (
    CodeLimits as CodeLimits,
    LocalCommandLineCodeExecutor as LocalCommandLineCodeExecutor,
)
from .process import Confinement as Confinement
from .tool import (
    CodeExecutionInput as CodeExecutionInput,
    CodeExecutionResult as CodeExecutionResult,
    PythonCodeExecutionTool as PythonCodeExecutionTool,
)

__all__: list[str]
