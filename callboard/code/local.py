"""An executor that runs code in processes of this machine, with its limits and its plain data."""

from __future__ import annotations

import asyncio
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath
from string import Template
from types import SimpleNamespace
from typing import ClassVar, Self

from pydantic import BaseModel, Field

from callboard.code.launcher import LaunchPlan
from callboard.core.cancellation import CancellationToken
from callboard.errors import MisuseError, SettingValueError
from callboard.foundation.component import Component
from callboard.foundation.texts import printable

from . import process
from .base import CodeBlock, CodeError, CodeExecutor, CommandLineCodeResult, FunctionsError
from .functions import Function, build_python_functions_file, install, packages_of, to_stub
from .process import Confinement, Measure, detect
from .workspace import (
    NAMES,
    PACKAGES,
    WorkFolder,
    delete,
    environment,
    find_language,
    named_file,
    program_of,
    python_of,
    readable_paths,
    remove_left,
    write_code,
)

MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class CodeLimits:
    """How much a code block may use. Each is a whole number above 0.

    Attributes:
        memory: Bytes of address space of each process, and of resident memory of all processes together.
        cpu_seconds: Processor time of each process; None: as long as the timeout.
        processes: Processes and threads at once.
        open_files: Open files of each process.
        file_size: Bytes of one file.
        disk: Bytes that may be added to the work folder.
        files: Files that may be added to the work folder.
        output: Bytes that may be written as output; a block that writes more is stopped.
        output_kept: Bytes of output that the result holds: half from the beginning and half from the end.

    Raises:
        SettingValueError: One of them is not above 0 (a ValueError).
    """

    memory: int = 2048 * MIB
    cpu_seconds: int | None = None
    processes: int = 128
    open_files: int = 256
    file_size: int = 256 * MIB
    disk: int = 1024 * MIB
    files: int = 20_000
    output: int = 64 * MIB
    output_kept: int = 64 * 1024

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and value < 1:
                raise SettingValueError(f"limits.{field.name}", repr(value), "a whole number above 0")


class LocalCommandLineCodeExecutorConfig(BaseModel):
    """Arguments of a `LocalCommandLineCodeExecutor`; those that AutoGen's has not come last.

    Attributes:
        timeout: Seconds for each block.
        work_dir: The work folder; None: a temporary one.
        functions_module: The name of the functions' module.
        cleanup_temp_files: Delete the files of blocks when they have run.
        limits: The limits.
        network: Code may use the network.
        readable: Files and folders that code may read.
        require_confinement: What must be in force.
    """

    timeout: float = 60
    work_dir: str | None = None
    functions_module: str = "functions"
    cleanup_temp_files: bool = True
    limits: CodeLimits = Field(default_factory=CodeLimits)
    network: bool = False
    readable: list[str] = []
    require_confinement: bool | Sequence[Measure] = False


def warn_of_loss(names: Iterable[str]) -> None:
    """Say which settings a configuration does not hold."""
    lost = ", ".join(names)
    if lost:
        warnings.warn(
            f"The configuration of a code executor does not hold: {lost}", UserWarning, stacklevel=3
        )


class Runs:
    """Counts runs, and cancels them together."""

    def __init__(self) -> None:
        self._token = CancellationToken()
        self._open: set[asyncio.Future[None]] = set()

    @contextmanager
    def new(self) -> Iterator[CancellationToken]:
        """Count one run; gives the token that is cancelled when all are."""
        ended = asyncio.get_running_loop().create_future()
        self._open.add(ended)
        try:
            yield self._token
        finally:
            self._open.discard(ended)
            ended.set_result(None)

    async def cancel(self) -> None:
        """Cancel the runs there are, and wait until they are over."""
        token, self._token = self._token, CancellationToken()
        token.cancel()
        if self._open:
            await asyncio.wait(set(self._open))


WARNING = (
    "LocalCommandLineCodeExecutor runs code that a model wrote on this machine. It is confined as far as the system "
    "allows (see its attribute `confinement`), which is no sandbox: run it in a container or a virtual machine of its "
    "own where the code can't be trusted."
)


class LocalCommandLineCodeExecutor(CodeExecutor, Component[LocalCommandLineCodeExecutorConfig]):
    """Runs each code block in processes of this machine; names are those of `autogen_ext.code_executors.local`.

    This is no sandbox, and it warns once that it is not. Each block is written to a file in the work folder and run
    by a process of its own, with limits, without network and without our environment. What it can't do on this
    system, `confinement` says; `require_confinement` makes it an error.

    Beside AutoGen: a cancelled token stops code that runs already (there it stops only code that has not begun);
    everything that a block started is gone when its result is there; two runs of the same code at one time don't
    delete each other's file; output is in the order in which it was written, and what was written before a timeout is
    there; the program's environment is not passed on.

    Args:
        timeout: Seconds that each block may take, at least 1.
        work_dir: The work folder, made when it is missing; what code leaves in it stays there. None: a temporary one,
            removed by `stop`, with the executor, or at the program's end; that of a killed program by the next one.
        functions: Functions that Python code can import from `functions_module`. They are installed and tried with
            the first block.
        functions_module: The name of their module.
        cleanup_temp_files: Delete the files of the blocks (not what they make) when they have run.
        virtual_env_context: What `venv.EnvBuilder.ensure_directories` returns: the environment to run Python in.
            None: the one of this program.
        limits: How much a block may use.
        network: Code may use the network.
        env: Environment variables for the code, added to the few it gets. They are no secret from it.
        readable: Files and folders that code may read, beside the work folder, Python and the system's programs.
        require_confinement: What must be in force, of "network", "writing", "reading", "processes", "memory"; True:
            all of it.

    Raises:
        SettingValueError: The timeout is less than 1 s, or the module's name is no identifier (a ValueError).
    """

    component_config_schema = LocalCommandLineCodeExecutorConfig
    component_provider_override = "callboard.code.LocalCommandLineCodeExecutor"

    SUPPORTED_LANGUAGES: ClassVar[list[str]] = list(NAMES)
    FUNCTION_PROMPT_TEMPLATE: ClassVar[str] = (
        "These functions are available to your code. They are in the module `$module_name`; a function `foo` is "
        "imported with `from $module_name import foo`.\n\n$functions"
    )

    def __init__(
        self,
        timeout: float = 60,
        work_dir: Path | str | None = None,
        functions: Sequence[Function] = (),
        functions_module: str = "functions",
        cleanup_temp_files: bool = True,
        virtual_env_context: SimpleNamespace | None = None,
        *,
        limits: CodeLimits | None = None,
        network: bool = False,
        env: Mapping[str, str] | None = None,
        readable: Iterable[Path | str] = (),
        require_confinement: bool | Sequence[Measure] = False,
    ) -> None:
        warnings.warn(WARNING, UserWarning, stacklevel=2)
        if not 1 <= timeout < math.inf:
            raise SettingValueError("timeout", repr(timeout), "greater than or equal to 1, in seconds")
        if not functions_module.isidentifier():
            raise SettingValueError("functions_module", repr(functions_module), "a valid Python identifier")
        self._timeout = timeout
        self._folder = WorkFolder(work_dir)
        self._functions = tuple(functions)
        self._functions_module = functions_module
        self._functions_in: Path | None = None
        self._cleanup_temp_files = cleanup_temp_files
        self._virtual_env = virtual_env_context
        self._limits = limits or CodeLimits()
        self._network = network
        self._env = dict(env or {})
        self._readable = tuple(str(Path(path).resolve()) for path in readable)
        self._required = require_confinement
        self._confinement: Confinement | None = None
        self._setting_up = asyncio.Lock()
        self._runs = Runs()

    @property
    def timeout(self) -> float:
        """Seconds that each block may take."""
        return self._timeout

    @property
    def work_dir(self) -> Path:
        """The work folder, made when it is missing."""
        return self._folder.open()

    @property
    def functions_module(self) -> str:
        """The name of the module that holds the functions."""
        return self._functions_module

    @property
    def cleanup_temp_files(self) -> bool:
        """Whether the files of blocks are deleted when they have run."""
        return self._cleanup_temp_files

    @property
    def confinement(self) -> Confinement:
        """Measures in force while code runs. Known from `start` on, or from the first block.

        Raises:
            MisuseError: It is not known yet (a RuntimeError).
        """
        if self._confinement is None:
            raise MisuseError(
                "LocalCommandLineCodeExecutor.confinement must be called within a started executor."
            )
        return self._confinement

    def format_functions_for_prompt(self, prompt_template: str = FUNCTION_PROMPT_TEMPLATE) -> str:
        """The functions as a text for the model that writes the code.

        Args:
            prompt_template: A text with `$module_name` and `$functions`.
        """
        stubs = "\n\n".join(to_stub(function) for function in self._functions)
        return Template(prompt_template).substitute(module_name=self._functions_module, functions=stubs)

    async def start(self) -> None:
        """Make the work folder, and find out how far code can be confined here.

        Raises:
            ConfinementError: Not as far as is required (a RuntimeError).
        """
        folder = await asyncio.to_thread(self._folder.open)
        if self._folder.given is None:
            await asyncio.to_thread(remove_left)
        if self._confinement is None:
            found = await detect(self._plan(folder, []))
            # Kept only when it is enough, so that nothing runs after a refusal
            found.require(self._required)
            self._confinement = found

    async def stop(self) -> None:
        """Stop the code that runs, whose results say that it was cancelled, and remove a temporary work folder."""
        await self._runs.cancel()
        await asyncio.to_thread(self._folder.remove)

    async def restart(self) -> None:
        """Stop the code that runs; a temporary work folder is a new one afterwards. In AutoGen this does nothing."""
        await self.stop()
        await self.start()

    async def execute_code_blocks(
        self, code_blocks: Sequence[CodeBlock], cancellation_token: CancellationToken
    ) -> CommandLineCodeResult:
        """Run blocks one after the other, up to the first that fails.

        Args:
            code_blocks: The blocks. In the first line of each, `# filename: name.py` names its file in the work folder.
            cancellation_token: Stops what runs; the exit code is 125 then.

        Returns:
            What they wrote, and the path of the first block's file. Exit code 1 also when a block's language is not
            supported or its file lies outside of the folder, 124 after a timeout, 126 when a block could not be
            started, 137 after a limit.

        Raises:
            FunctionsError: The functions can't be installed (a ValueError).
            ConfinementError: The system does not allow what is required (a RuntimeError).
            asyncio.CancelledError: The task was cancelled; nothing of the code is left.
        """
        if self._confinement is None:
            await self.start()
        with self._runs.new() as stopped:
            tokens = (cancellation_token, stopped)
            folder = self._folder.open()
            await self._set_up_functions(folder, tokens)
            return await self._execute(folder, code_blocks, tokens)

    async def _set_up_functions(self, folder: Path, tokens: Sequence[CancellationToken]) -> None:
        module = PurePosixPath(f"{self._functions_module}.py")
        async with self._setting_up:
            if not self._functions or (self._functions_in == folder and (folder / module).is_file()):
                return
            packages = packages_of(self._functions)
            if packages:
                python = python_of(self._virtual_env)
                await install(python, packages, folder / PACKAGES, self._timeout, tokens)
            source = build_python_functions_file(self._functions)
            write_code(folder, source, module, "py")
            result = await self._execute(folder, [CodeBlock(source, "python")], tokens)
            if result.exit_code != 0:
                raise FunctionsError(f"Functions failed to load: {result.output}")
            self._functions_in = folder

    async def _execute(
        self, folder: Path, blocks: Sequence[CodeBlock], tokens: Sequence[CancellationToken]
    ) -> CommandLineCodeResult:
        files: list[PurePosixPath] = []
        output = ""
        code = 0
        try:
            for block in blocks:
                code, text = await self._run_block(folder, block, tokens, files)
                output += text
                if code != 0:
                    break
        finally:
            if self._cleanup_temp_files:
                for file in files:
                    delete(folder, file)
        code_file = str(folder / files[0]) if files else None
        return CommandLineCodeResult(exit_code=code, output=output, code_file=code_file)

    async def _run_block(
        self, folder: Path, block: CodeBlock, tokens: Sequence[CancellationToken], files: list[PurePosixPath]
    ) -> tuple[int, str]:
        language = find_language(block.language)
        if language is None:
            return 1, f"\nunknown language {printable(block.language)}"
        program = program_of(language, self._virtual_env)
        if program is None:
            return 1, f"\n{language.name} is not installed"
        try:
            files.append(write_code(folder, block.code, named_file(block.code, folder), language.suffix))
        except CodeError:
            return 1, "\nFilename is not in the workspace"
        command = [program, *language.options, str(folder / files[-1])]
        environ = environment(folder, self._virtual_env, self._env)
        plan, limits = self._plan(folder, command), self._limits
        return await process.run(plan, environ, tokens, limits.output, limits.output_kept)

    def _to_config(self) -> LocalCommandLineCodeExecutorConfig:
        """Its settings as plain data; not functions, a virtual environment, and `env`, which may hold secrets.

        AutoGen writes the path of its temporary folder, which is gone when the data are read.
        """
        left_out = {"functions": self._functions, "virtual_env_context": self._virtual_env, "env": self._env}
        warn_of_loss(name for name, value in left_out.items() if value)
        return LocalCommandLineCodeExecutorConfig(
            timeout=self._timeout,
            work_dir=self._folder.given,
            functions_module=self._functions_module,
            cleanup_temp_files=self._cleanup_temp_files,
            limits=self._limits,
            network=self._network,
            readable=list(self._readable),
            require_confinement=self._required,
        )

    @classmethod
    def _from_config(cls, config: LocalCommandLineCodeExecutorConfig) -> Self:
        return cls(**dict(config))

    def _plan(self, folder: Path, command: list[str]) -> LaunchPlan:
        limits = self._limits
        return LaunchPlan(
            command=command,
            folder=str(folder),
            timeout=self._timeout,
            measures=list(self._confinement.measures) if self._confinement else [],
            network=self._network,
            readable=readable_paths(self._virtual_env, self._readable),
            memory=limits.memory,
            cpu_seconds=limits.cpu_seconds or math.ceil(self._timeout),
            processes=limits.processes,
            open_files=limits.open_files,
            file_size=limits.file_size,
            disk=limits.disk,
            files=limits.files,
        )
