"""The local executor: what AutoGen's does, and what it does better."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import uvloop

from callboard import CancellationToken
from callboard.code import (
    CodeBlock,
    CodeExecutor,
    CodeLimits,
    ConfinementError,
    FunctionsError,
    LocalCommandLineCodeExecutor,
    local,
    with_requirements,
)
from callboard.code.launcher import LaunchPlan
from callboard.code.local import LocalCommandLineCodeExecutorConfig
from callboard.code.process import Confinement
from callboard.code.workspace import remove_left
from callboard.errors import MisuseError, SettingValueError
from tests.helpers.watched_token import WatchedToken

from .executors import an_executor, run, started


async def test_python_runs_in_the_work_folder(folder: Path) -> None:
    async with an_executor(folder) as executor:
        result = await run(executor, "import os\nprint(os.getcwd())\nopen('made.txt', 'w').write('x')")
    assert (result.exit_code, result.output) == (0, f"{folder}\n")
    assert (folder / "made.txt").read_text() == "x"


@pytest.mark.parametrize("language", ["python", "Python", "py", " PYTHON "])
async def test_the_names_of_python(folder: Path, language: str) -> None:
    result = await run(an_executor(folder), "import sys; print(sys.executable)", language)
    assert result.output.strip() == sys.executable


@pytest.mark.parametrize("language", ["bash", "sh", "shell"])
async def test_shells(folder: Path, language: str) -> None:
    result = await run(an_executor(folder), "for i in 1 2; do echo $i; done; exit 3", language)
    assert (result.exit_code, result.output) == (3, "1\n2\n")


@pytest.mark.parametrize(
    "language", ["", "cobol", "sh; rm -rf /", "../../bin/sh", "python3.99", "\x1b[2J", "ｐｙ"]
)
async def test_another_language_is_a_result(folder: Path, language: str) -> None:
    result = await run(an_executor(folder), "x", language)
    assert result.exit_code == 1
    assert result.output.startswith("\nunknown language ")
    assert "\x1b" not in result.output
    assert result.code_file is None


async def test_a_shell_that_is_not_installed_is_a_result(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    result = await run(an_executor(folder), "x", "pwsh")
    assert (result.exit_code, result.output) == (1, "\npowershell is not installed")


async def test_blocks_run_in_order_up_to_the_first_that_fails(folder: Path) -> None:
    blocks = [
        CodeBlock("echo 1", "sh"),
        CodeBlock("print(2)\nraise SystemExit(7)", "python"),
        CodeBlock("echo 3", "sh"),
    ]
    result = await an_executor(folder).execute_code_blocks(blocks, CancellationToken())
    assert (result.exit_code, result.output) == (7, "1\n2\n")
    assert result.code_file is not None
    assert Path(result.code_file).parent == folder
    assert result.code_file.endswith(".sh")


async def test_no_blocks(folder: Path) -> None:
    result = await an_executor(folder).execute_code_blocks([], CancellationToken())
    assert (result.exit_code, result.output, result.code_file) == (0, "", None)


async def test_errors_stand_where_they_were_written(folder: Path) -> None:
    code = "import sys\nprint(1)\nprint(2, file=sys.stderr)\nprint(3)\n1/0"
    result = await run(an_executor(folder), code)
    assert result.exit_code == 1
    assert result.output.startswith("1\n2\n3\nTraceback")
    assert "ZeroDivisionError" in result.output


async def test_files_of_blocks_are_deleted_unless_they_are_kept(folder: Path) -> None:
    await run(an_executor(folder), "# filename: a.py\nopen('b.txt', 'w')")
    assert sorted(path.name for path in folder.iterdir() if path.name[0] != ".") == ["b.txt"]
    result = await run(an_executor(folder, cleanup_temp_files=False), "# filename: a.py\nprint(__file__)")
    assert result.output.strip() == result.code_file == str(folder / "a.py")
    assert (folder / "a.py").exists()


@pytest.mark.parametrize(
    "name", ["../a.py", "/etc/a.py", "a/../../b.py", "..", "", "a\x00.py", "x" * 300, "/"]
)
async def test_a_file_outside_of_the_folder_is_refused(folder: Path, name: str) -> None:
    result = await run(an_executor(folder), f"# filename: {name}\nprint(1)")
    assert (result.exit_code, result.output) == (1, "\nFilename is not in the workspace")
    assert list(folder.parent.iterdir()) == [folder]


async def test_a_temporary_folder_is_made_and_removed() -> None:
    executor = an_executor()
    async with executor:
        folder = executor.work_dir
        assert folder.stat().st_mode & 0o777 == 0o700
        await run(executor, "import os\nos.makedirs('a/b')\nos.symlink('/', 'root')\nos.chmod('a', 0)")
    assert not folder.exists()
    assert executor.work_dir != folder
    await executor.stop()


async def test_a_temporary_folder_goes_with_its_executor() -> None:
    executor = an_executor()
    await run(executor, "open('kept', 'w')")
    folder = executor.work_dir
    assert (folder / "kept").exists()
    del executor
    gc.collect()
    assert not folder.exists()


PROGRAM = """
import asyncio, os, sys, warnings
warnings.simplefilter("ignore")
from callboard.code import LocalCommandLineCodeExecutor

executor = LocalCommandLineCodeExecutor()
asyncio.run(executor.start())
if os.fork() == 0:
    sys.exit()  # it was forked off, and the folder is not its own
os.wait()
print(executor.work_dir, executor.work_dir.is_dir(), flush=True)
if sys.argv[1:]: sys.stdin.read()
"""


def _program(*arguments: str) -> tuple[subprocess.Popen[str], Path]:
    """A program that never stops its executor, and the temporary folder of that."""
    command = [sys.executable, "-c", PROGRAM, *arguments]
    environ = {**os.environ, "TMPDIR": tempfile.gettempdir()}
    program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ)
    assert program.stdout is not None
    folder, there = program.stdout.readline().split()
    assert there == "True"
    return program, Path(folder)


def test_a_temporary_folder_goes_with_its_program() -> None:
    program, folder = _program()
    program.communicate()
    assert not folder.exists()


async def test_what_killed_programs_left_is_removed_and_what_is_used_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (killed, left), (alive, used) = _program("wait"), _program("wait")
    killed.kill()
    killed.communicate()
    assert left.exists()
    remove_left.cache_clear()
    async with an_executor():
        assert not left.exists()
        assert used.exists()
    alive.communicate()
    assert not used.exists()


async def test_a_given_folder_stays(folder: Path) -> None:
    async with an_executor(folder / "deep" / "er") as executor:
        assert executor.work_dir == folder / "deep" / "er"
    assert executor.work_dir.is_dir()


async def test_it_starts_by_itself_and_again_after_a_stop() -> None:
    executor = an_executor()
    for _ in range(2):
        assert (await run(executor, "print(1)")).output == "1\n"
        await executor.stop()


async def test_a_deleted_folder_is_made_again(folder: Path) -> None:
    executor = an_executor(folder)
    await executor.start()
    for path in (folder / ".home", folder):
        path.rmdir()
    assert (await run(executor, "print(1)")).output == "1\n"


async def test_restart_stops_what_runs_and_gives_a_new_folder(tmp_path: Path) -> None:
    async with an_executor() as executor:
        before = executor.work_dir
        task = await started(executor, "open('m', 'w')\nimport time\ntime.sleep(60)", before / "m")
        await executor.restart()
        assert (await task).exit_code == 125
        assert executor.work_dir != before


async def test_an_environment_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("LANG", "C.UTF-8")
    executor = an_executor(folder, env={"GIVEN": "1", "TZ": "UTC"})
    result = await run(executor, "import os\nprint(dict(os.environ), end='')")
    assert "sk-secret" not in result.output
    environ = eval(result.output)
    assert (environ["GIVEN"], environ["TZ"], environ["LANG"]) == ("1", "UTC", "C.UTF-8")
    assert environ["HOME"] == environ["TMPDIR"] == str(folder / ".home")


async def test_its_input_is_closed(folder: Path) -> None:
    result = await run(an_executor(folder), "import sys\nprint(repr(sys.stdin.read()))")
    assert result.output == "''\n"


async def test_output_that_is_no_text(folder: Path) -> None:
    result = await run(an_executor(folder), r"import sys; sys.stdout.buffer.write(b'a\0\xff\xc3\xa9')")
    assert result.output == "a\ufffd\ufffdé"


async def test_code_that_is_no_text(folder: Path) -> None:
    result = await run(an_executor(folder), "print('\ud800')")
    assert (result.exit_code, result.output) == (0, "?\n")


async def test_a_timeout_keeps_what_was_written(folder: Path) -> None:
    result = await run(an_executor(folder, timeout=1), "print('begun')\nimport time\ntime.sleep(60)")
    assert (result.exit_code, result.output) == (124, "begun\n\nTimeout: stopped after 1 s.\n")


async def test_a_cancelled_token_stops_code_that_runs(folder: Path) -> None:
    token = CancellationToken()
    code = "print('begun')\nopen('m', 'w')\nimport time\ntime.sleep(60)"
    task = await started(an_executor(folder), code, folder / "m", token)
    token.cancel()
    result = await task
    assert (result.exit_code, result.output) == (125, "begun\n\nCancelled")


async def test_a_token_that_is_cancelled_already(folder: Path) -> None:
    token = CancellationToken()
    token.cancel()
    assert (await run(an_executor(folder), "open('m', 'w')", token=token)).exit_code == 125
    assert not (folder / "m").exists()


async def test_a_cancelled_task_ends_when_the_code_has_ended(folder: Path) -> None:
    code = "while True: open('beat', 'a').write('x')"
    task = await started(an_executor(folder), code, folder / "beat")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    size = (folder / "beat").stat().st_size
    assert sorted(path.name for path in folder.glob("*.py")) == []
    assert (folder / "beat").stat().st_size == size


async def test_one_token_for_many_runs_holds_none_of_them(folder: Path) -> None:
    token = WatchedToken()
    executor = an_executor(folder)
    for _ in range(3):
        await run(executor, "print(1)", "sh", token)
    await asyncio.sleep(0)  # the links end with the futures' callbacks
    assert token.links >= 3
    assert token.kept() == []


async def test_fifty_at_once_with_the_same_code(folder: Path) -> None:
    executor = an_executor(folder)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run(executor, "echo $((6 * 7))", "sh")) for _ in range(50)]
    assert {(task.result().exit_code, task.result().output) for task in tasks} == {(0, "42\n")}
    assert not list(folder.glob("*.sh"))


def test_it_runs_under_uvloop(folder: Path) -> None:
    async def both() -> tuple[int, int]:
        executor = an_executor(folder, timeout=1)
        return (await run(executor, "print(1)")).exit_code, (
            await run(executor, "while True: pass")
        ).exit_code

    assert uvloop.run(both()) == (0, 124)


def test_a_warning_says_that_it_is_no_sandbox() -> None:
    with pytest.warns(UserWarning, match="no sandbox"):
        LocalCommandLineCodeExecutor()


def test_the_current_folder_is_no_good_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with pytest.warns(DeprecationWarning, match="current folder"):
        an_executor(Path())


@pytest.mark.parametrize("timeout", [0, 0.5, -1, float("inf"), float("nan")])
def test_a_timeout_that_is_none(timeout: float) -> None:
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        an_executor(timeout=timeout)


def test_a_module_name_that_is_none() -> None:
    with pytest.raises(SettingValueError, match="valid Python identifier"):
        an_executor(functions_module="a-b")


@pytest.mark.parametrize("field", ["memory", "cpu_seconds", "processes", "output_kept"])
def test_a_limit_that_is_none(field: str) -> None:
    with pytest.raises(SettingValueError, match=rf"limits.{field}=0 can't work"):
        CodeLimits(**{field: 0})


async def test_confinement_is_known_after_the_start(folder: Path) -> None:
    executor = an_executor(folder)
    with pytest.raises(MisuseError, match="started executor"):
        executor.confinement  # noqa: B018
    async with executor:
        assert str(executor.confinement).startswith("confined by")


async def test_required_confinement_that_is_not_there_is_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def detect_nothing(plan: LaunchPlan) -> Confinement:
        return Confinement.of(())

    monkeypatch.setattr(local, "detect", detect_nothing)
    with pytest.raises(ConfinementError, match="network, writing, reading, processes"):
        await an_executor(folder, require_confinement=True).start()
    executor = an_executor(folder, require_confinement=["network"])
    for _ in range(2):  # also when it was refused before
        with pytest.raises(ConfinementError, match="in force here: network"):
            await run(executor, "open('m', 'w')")
    assert not (folder / "m").exists()


async def test_another_python(folder: Path) -> None:
    """A virtual environment is its Python and its programs."""
    context = SimpleNamespace(env_exe=sys.executable, bin_path=str(Path(sys.executable).parent))
    result = await run(an_executor(folder, virtual_env_context=context), "command -v python", "sh")
    assert result.output.strip() == str(Path(sys.executable).parent / "python")


def double(number: int) -> int:
    """Twice a number."""
    return math.floor(2 * number)  # type: ignore[name-defined, no-any-return] # noqa: F821 - imported in its own module


async def test_functions_can_be_imported(folder: Path) -> None:
    wrapped = with_requirements(python_packages=["pytest"], global_imports=["math"])(double)
    executor = an_executor(folder, functions=[wrapped])
    for _ in range(2):
        result = await run(executor, f"from {executor.functions_module} import double\nprint(double(4))")
        assert (result.exit_code, result.output) == (0, "8\n")
    prompt = executor.format_functions_for_prompt()
    assert "`functions`" in prompt
    assert 'def double(number: int) -> int:\n    """Twice a number."""\n    ...' in prompt.replace(
        "'int'", "int"
    )


async def test_functions_that_do_not_load(folder: Path) -> None:
    wrapped = with_requirements(global_imports=["no_such_module_here"])(double)
    with pytest.raises(FunctionsError, match=r"(?s)Functions failed to load: .*no_such_module_here"):
        await run(an_executor(folder, functions=[wrapped]), "print(1)")


async def test_packages_that_can_not_be_installed(folder: Path) -> None:
    missing = str(folder / "no-such-0.1-py3-none-any.whl")
    wrapped = with_requirements(python_packages=[missing])(double)
    with pytest.raises(FunctionsError, match="Pip install failed"):
        await run(an_executor(folder, functions=[wrapped]), "print(1)")


async def test_its_settings_as_plain_data_and_back(folder: Path) -> None:
    executor = an_executor(
        folder,
        timeout=7,
        limits=CodeLimits(memory=1 << 28),
        readable=[folder],
        require_confinement=["network"],
    )
    config = LocalCommandLineCodeExecutorConfig.model_validate_json(executor._to_config().model_dump_json())
    with pytest.warns(UserWarning, match="no sandbox"):
        again = LocalCommandLineCodeExecutor._from_config(config)
    assert (again.timeout, again.work_dir) == (7, folder)
    assert again._to_config() == config
    assert config.limits.memory == 1 << 28


async def test_a_temporary_folder_and_secrets_are_no_settings() -> None:
    executor = an_executor(env={"TOKEN": "secret"})
    assert executor.work_dir.is_dir()
    with pytest.warns(UserWarning, match="does not hold: env$"):
        config = executor._to_config()
    assert config.work_dir is None
    assert "secret" not in config.model_dump_json()
    await executor.stop()


def test_settings_of_autogen_can_be_read() -> None:
    theirs = {"timeout": 60, "work_dir": None, "functions_module": "functions", "cleanup_temp_files": True}
    with pytest.warns(UserWarning, match="no sandbox"):
        executor = LocalCommandLineCodeExecutor._from_config(LocalCommandLineCodeExecutorConfig(**theirs))
    assert executor.timeout == 60


def test_it_is_a_code_executor() -> None:
    assert isinstance(an_executor(), CodeExecutor)
    assert set(LocalCommandLineCodeExecutor.SUPPORTED_LANGUAGES) >= {
        "bash",
        "shell",
        "sh",
        "pwsh",
        "ps1",
        "python",
    }
