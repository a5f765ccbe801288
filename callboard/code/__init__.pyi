from .base import (
    CodeBlock as CodeBlock,
    CodeExecutor as CodeExecutor,
    CodeResult as CodeResult,
    CommandLineCodeResult as CommandLineCodeResult,
)
from .config import LocalCommandLineCodeExecutorConfig as LocalCommandLineCodeExecutorConfig
from .confinement import Confinement as Confinement
from .errors import (
    CodeError as CodeError,
    ConfinementError as ConfinementError,
    FunctionsError as FunctionsError,
)
from .limits import CodeLimits as CodeLimits
from .local import LocalCommandLineCodeExecutor as LocalCommandLineCodeExecutor
from .requirements import (
    Alias as Alias,
    FunctionWithRequirements as FunctionWithRequirements,
    FunctionWithRequirementsStr as FunctionWithRequirementsStr,
    Import as Import,
    ImportFromModule as ImportFromModule,
    with_requirements as with_requirements,
)
from .tool import (
    CodeExecutionInput as CodeExecutionInput,
    CodeExecutionResult as CodeExecutionResult,
    PythonCodeExecutionTool as PythonCodeExecutionTool,
)

__all__: list[str]
