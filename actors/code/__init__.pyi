from .base import (
    CodeBlock as CodeBlock,
    CodeExecutor as CodeExecutor,
    CodeResult as CodeResult,
    CommandLineCodeResult as CommandLineCodeResult,
)

__all__: list[str]
