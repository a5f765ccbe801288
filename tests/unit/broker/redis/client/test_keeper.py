"""The keeper of a lease: beside this process, and looked at from inside, one look at a time."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest

from callboard.broker import BrokerSettings
from callboard.broker.errors import ConnectionLostError
from callboard.broker.redis.client import keeper_process
from callboard.broker.redis.client.endpoint import Endpoint
from callboard.broker.redis.client.heartbeat import ATTEMPTS, HangPolicy, Keeper, Pulse, can_keep, plan_of
from callboard.broker.redis.client.lane import WorkerLane
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.keys import Keys
from callboard.broker.redis.operations.acl import rules
from tests.helpers.eventually import eventually
from tests.helpers.peers import Client, peer, silent
from tests.helpers.processes import has_ended
from tests.helpers.sentinels import NAME, Sentinel
from tests.helpers.servers import ServerProcess, free_port

USER, PASSWORD = "keeping", "pass word\n:@"
LEASE = 0.4
SLEEPER = (sys.executable, "-c", "import time; time.sleep(600)")


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess() as started:
        yield started


def keepers() -> list[psutil.Process]:
    """The keepers that this process has started and that still run."""
    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):  # also where it has ended and was not waited for
            if keeper_process.__file__ in child.cmdline():
                found.append(child)
    return found


class KeeperFixture:
    """A worker that has joined and is silent from then on."""

    def __init__(
        self, url: str, *, ends: bool = False, max_silence: float = 60.0, lease: float = LEASE
    ) -> None:
        settings = BrokerSettings(
            namespace=f"keep-{os.urandom(4).hex()}",
            lease=lease,
            beat_every=lease / 5,
            max_silence=max_silence,
        )
        self._before = {one.pid for one in keepers()}
        self.transport = RedisTransport(url, settings)
        self.lane: WorkerLane = self.transport.lane()
        self.keeper = Keeper(
            self.transport.endpoint, self.transport.keys, settings, HangPolicy(ends, margin=0.0)
        )

    async def join(self) -> str:
        await self.lane.join(["counter"])
        return self.lane.worker

    async def lease_ends(self) -> float:
        """Server ms; 0 when the server does not know the worker."""
        key = self.transport.keys.of("workers")
        return float(await self.transport.admin.command("ZSCORE", key, self.lane.worker) or 0)

    async def is_extended(self) -> None:
        before = await self.lease_ends()

        async def is_later() -> bool:
            return await self.lease_ends() > before

        await eventually(is_later)

    async def lease_is_over(self) -> None:
        """Waits until it has ended, by the server's clock, and was not extended for a whole lease more."""

        async def is_over() -> bool:
            seconds, micros = await self.transport.admin.command("TIME")
            late = int(seconds) * 1000 + int(micros) // 1000 - await self.lease_ends()
            return late > 1000 * LEASE

        await eventually(is_over)

    def running(self) -> list[psutil.Process]:
        """The keepers that were started since this was made."""
        return [one for one in keepers() if one.pid not in self._before]

    @property
    def process(self) -> psutil.Process:
        (made,) = self.running()
        return made

    async def close(self) -> None:
        self.keeper.close()
        self.lane.close()
        await self.transport.close()


@pytest.fixture
async def fixture(server: ServerProcess) -> AsyncIterator[KeeperFixture]:
    made = KeeperFixture(server.url)
    yield made
    await made.close()


# Beside this process


async def test_it_extends_the_lease_of_a_silent_worker(fixture: KeeperFixture) -> None:
    fixture.keeper.tell(await fixture.join())
    for _ in range(3):
        await fixture.is_extended()


async def test_what_was_said_with_the_start_counts_at_once(fixture: KeeperFixture) -> None:
    worker = await fixture.join()
    plan, name = fixture.keeper._plan, worker.encode().hex().encode() + b"\n"
    fixture.keeper._plan = plan + name
    fixture.keeper._start()
    await fixture.is_extended()


async def test_it_logs_in_as_the_worker_does_and_shows_no_password(server: ServerProcess) -> None:
    fixture = KeeperFixture(server.url)
    admin = fixture.transport.admin
    role = rules("worker", fixture.transport.keys.namespace)
    await admin.command("ACL", "SETUSER", USER, "reset", "on", f">{PASSWORD}", *role)
    endpoint = Endpoint("unix", path=str(server.path), username=USER, password=PASSWORD)
    settings = fixture.transport.settings
    fixture.keeper.close()
    other = fixture.keeper = Keeper(endpoint, fixture.transport.keys, settings, HangPolicy(False, 0.0))
    other.tell(await fixture.join())
    await fixture.is_extended()
    listed = (await admin.command("CLIENT", "LIST")).decode()
    assert any("name=callboard-keeper" in line and f"user={USER}" in line for line in listed.splitlines())
    assert not [word for word in fixture.process.cmdline() if "pass" in word]
    await fixture.close()


async def test_it_finds_the_primary_that_sentinels_watch(tmp_path: Path) -> None:
    with ServerProcess(access="tcp") as server, Sentinel(tmp_path, server, 1, "s3cret") as sentinel:
        listed = f"127.0.0.1:{free_port()},127.0.0.1:{sentinel.port}"
        fixture = KeeperFixture(f"redis+sentinel://{listed}/{NAME}?sentinel_password=s3cret")
        fixture.keeper.tell(await fixture.join())
        for _ in range(2):
            await fixture.is_extended()
        await fixture.close()


async def test_it_does_not_bring_back_a_worker_that_was_reaped(fixture: KeeperFixture) -> None:
    fixture.keeper.tell(await fixture.join())
    await fixture.is_extended()
    await fixture.transport.admin.command("ZREM", fixture.transport.keys.of("workers"), fixture.lane.worker)
    other = fixture.transport.lane()
    await other.join(["counter"])
    await asyncio.sleep(2 * LEASE)  # it looks four times in a lease
    assert await fixture.lease_ends() == 0
    other.close()


async def test_nothing_is_extended_while_there_is_no_lease_to_keep(fixture: KeeperFixture) -> None:
    fixture.keeper.tell(await fixture.join())
    await fixture.is_extended()
    fixture.keeper.tell("")
    await fixture.lease_is_over()


async def test_after_max_silence_the_lease_ends(
    server: ServerProcess, capfd: pytest.CaptureFixture[str]
) -> None:
    fixture = KeeperFixture(server.url, max_silence=2 * LEASE)
    fixture.keeper.tell(await fixture.join())
    await fixture.is_extended()
    await fixture.lease_is_over()
    await fixture.close()
    (line,) = capfd.readouterr().err.splitlines()
    assert line == (
        f"callboard: the worker {fixture.lane.worker} has been silent for too long: "
        "others take its messages when its lease ends"
    )


async def test_a_handler_with_a_limit_may_be_silent_until_then(server: ServerProcess) -> None:
    fixture = KeeperFixture(server.url, max_silence=0.001)
    fixture.keeper.board[0] = time.monotonic() + 600
    fixture.keeper.tell(await fixture.join())
    for _ in range(3):
        await fixture.is_extended()
    fixture.keeper.board[0] = time.monotonic() - 1
    await fixture.lease_is_over()
    await fixture.close()


async def test_it_goes_on_after_the_server_was_away() -> None:
    with ServerProcess(persistent=True) as server:
        fixture = KeeperFixture(server.url)
        fixture.keeper.tell(await fixture.join())
        await fixture.is_extended()
        server.kill()
        server.start()
        with contextlib.suppress(ConnectionLostError):  # the connection to the server that was killed
            await fixture.lease_ends()
        await fixture.is_extended()
        await fixture.close()


async def test_a_server_that_hangs_does_not_hang_it() -> None:
    async with peer(silent) as hung:
        fixture = KeeperFixture(hung.url)
        fixture.keeper.tell("shop:7:k3x0p9qa:1")
        await eventually(lambda: hung.connections >= 3)
        process = fixture.process
        await fixture.close()
        assert not process.is_running()


async def test_it_speaks_through_tls_with_the_signers_of_its_worker(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: there is nothing to make a certificate with")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test"
    named = ("-addext", "subjectAltName=IP:127.0.0.1", "-out", str(cert), "-keyout", str(key))
    subprocess.run(["openssl", *made.split(), *named], check=True, capture_output=True)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(cert, key)
    extended: list[list[bytes]] = []

    async def talk(client: Client) -> None:
        while (command := await client.command()) is not None:
            if command[0] == b"ZADD":
                extended.append(command)
            await client.say(b"*2\r\n$2\r\n12\r\n$6\r\n345678\r\n" if command == [b"TIME"] else b":0\r\n")

    async with peer(talk, tls=tls) as server:
        fixture = KeeperFixture(f"{server.url}?ssl_ca_certs={cert}")
        fixture.keeper.tell("shop:7:k3x0p9qa:1")
        await eventually(lambda: extended)
        workers = fixture.transport.keys.of("workers").encode()
        assert extended[0] == [b"ZADD", workers, b"XX", b"12745", b"shop:7:k3x0p9qa:1"]
        await fixture.close()


async def test_signals_for_all_do_not_end_it_and_closing_does(fixture: KeeperFixture) -> None:
    fixture.keeper.tell(await fixture.join())
    await fixture.is_extended()
    process = fixture.process
    assert os.getsid(process.pid) == process.pid, "Ctrl-C does not reach it"
    for number in keeper_process.IGNORED:
        process.send_signal(number)
    await fixture.is_extended()
    fixture.keeper.close()
    assert not process.is_running()
    fixture.keeper.tell(fixture.lane.worker)
    assert fixture.running() == []


async def test_one_that_was_killed_is_replaced_with_the_next_beat(
    fixture: KeeperFixture, caplog: pytest.LogCaptureFixture
) -> None:
    worker = await fixture.join()
    fixture.keeper.tell(worker)
    first = fixture.process
    first.kill()

    def is_replaced() -> bool:
        fixture.keeper.tell(worker)
        return [one.pid for one in fixture.running()] not in ([], [first.pid])

    await eventually(is_replaced)
    await fixture.is_extended()
    assert "another is started" in caplog.text
    assert not first.is_running(), "no zombie"


async def test_one_that_can_not_run_is_given_up(
    fixture: KeeperFixture, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    for _ in range(2 * ATTEMPTS):
        fixture.keeper.tell("shop:7:k3x0p9qa:1")
    assert caplog.text.count("another is started") == ATTEMPTS - 1
    assert caplog.text.count("set CALLBOARD_KEEPER=0") == 1


async def test_one_that_stands_still_does_not_stop_the_heart(fixture: KeeperFixture) -> None:
    worker = await fixture.join()
    fixture.keeper.tell(worker)
    fixture.process.suspend()
    await eventually(lambda: fixture.process.status() == psutil.STATUS_STOPPED)
    for _ in range(5000):  # more than a pipe holds
        fixture.keeper.tell(worker)
    assert fixture.process.status() == psutil.STATUS_STOPPED
    fixture.process.resume()
    await fixture.is_extended()


def test_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = BrokerSettings()
    assert can_keep(Endpoint.parse("redis://"), settings)
    assert not can_keep(Endpoint.parse("memory://x"), settings)
    assert not can_keep(Endpoint.parse("redis://"), BrokerSettings(keeper=False))
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert not can_keep(Endpoint.parse("redis://"), settings)


@pytest.mark.parametrize("forked", [False, True], ids=["alone", "with a forked child that has its pipe"])
async def test_it_ends_with_its_worker(server: ServerProcess, forked: bool) -> None:
    code = f"""
import os, time
from callboard.broker import BrokerSettings
from callboard.broker.redis.client.endpoint import Endpoint
from callboard.broker.redis.client.heartbeat import Keeper, HangPolicy as Watch
from callboard.broker.redis.keys import Keys
from callboard.broker.redis.operations.acl import rules
keeper = Keeper(Endpoint.parse({server.url!r}), Keys("n"), BrokerSettings(), Watch(False, 0.0))
keeper.tell("shop:7:k3x0p9qa:1")
if {forked} and not os.fork():
    time.sleep(600)
os.write(1, f"{{keeper._process.pid}}\\n".encode())
time.sleep(600)
"""
    worker = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    keeper = psutil.Process(int(worker.stdout.readline()))
    forks = [one for one in psutil.Process(worker.pid).children() if one.pid != keeper.pid]
    assert len(forks) == forked
    worker.kill()
    worker.wait()
    worker.stdout.close()
    await eventually(lambda: has_ended(keeper))
    for one in forks:
        one.kill()


class ListeningKeeper(Keeper):
    """Notes what it is told."""

    told: list[str]

    def tell(self, worker: str) -> None:
        super().tell(worker)
        self.told.append(worker)


async def test_a_heartbeat_tells_it_of_each_beat_and_of_each_that_failed() -> None:
    with ServerProcess() as server:
        fixture = KeeperFixture(server.url)
        fixture.keeper.close()
        transport, worker = fixture.transport, ""
        keeper = ListeningKeeper(
            transport.endpoint, transport.keys, transport.settings, HangPolicy(False, 0.0)
        )
        keeper.told, fixture.keeper = [], keeper
        heartbeat = transport.heartbeat(lambda: Pulse(worker, 0, 0, 0), print, keeper)
        heartbeat.start()
        await eventually(lambda: keeper.told[:2] == ["", ""])
        assert fixture.running() == [], "there is no lease to keep"
        worker = await fixture.join()
        await eventually(lambda: keeper.told[-1] == worker)
        process = fixture.process
        server.kill()
        await eventually(lambda: keeper.told[-2:] == ["", ""])
        await heartbeat.end()
        assert not process.is_running()
        await fixture.close()


async def test_with_a_worker_process_it_starts_at_once_and_else_with_the_first_beat(
    server: ServerProcess,
) -> None:
    fixture, eager = KeeperFixture(server.url), KeeperFixture(server.url, ends=True)
    for one in (fixture, eager):
        one.keeper.start()
        one.keeper.introduce(await one.join())
    assert len(fixture.running()) == 1
    await eager.is_extended()
    fixture.keeper.tell(fixture.lane.worker)
    assert len(fixture.running()) == 2
    await fixture.is_extended()
    await fixture.close()
    await eager.close()


# From inside, with a process that stands for the worker


class Inside:
    """A keeper in this process, of a worker process that does nothing."""

    def __init__(self, fixture: KeeperFixture, monkeypatch: pytest.MonkeyPatch) -> None:
        self.worker = subprocess.Popen(SLEEPER)
        settings, endpoint = fixture.transport.settings, fixture.transport.endpoint
        with monkeypatch.context() as patch:
            patch.setattr("os.getpid", lambda: self.worker.pid)
            line = plan_of(endpoint, fixture.transport.keys, settings, HangPolicy(True, margin=0.0))
        self.earliest = memoryview(bytearray(keeper_process.BOARD_SIZE)).cast("d")
        plan = keeper_process.KeeperPlan(line.rstrip(b"\n"))
        self.keeper = keeper_process.KeeperLoop(plan, self.earliest)
        self.keeper.take(fixture.lane.worker.encode().hex().encode() + b"\n")

    def look(self, times: int = 1) -> None:
        for _ in range(times):
            self.keeper._look()

    def close(self) -> None:
        self.keeper._server.close()
        if self.keeper._parent.descriptor >= 0:
            os.close(self.keeper._parent.descriptor)
        self.worker.kill()
        self.worker.wait()


@pytest.fixture
async def inside(fixture: KeeperFixture, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Inside]:
    await fixture.join()
    made = Inside(fixture, monkeypatch)
    yield made
    made.close()


async def test_a_look_extends(inside: Inside, fixture: KeeperFixture) -> None:
    before = await fixture.lease_ends()
    inside.look()
    assert await fixture.lease_ends() > before


async def test_a_look_at_a_reaped_worker_changes_nothing(inside: Inside, fixture: KeeperFixture) -> None:
    await fixture.transport.admin.command("ZREM", fixture.transport.keys.of("workers"), fixture.lane.worker)
    inside.look()
    assert await fixture.lease_ends() == 0


async def test_a_stopped_worker_loses_its_lease_and_is_not_ended(
    inside: Inside, fixture: KeeperFixture
) -> None:
    before = await fixture.lease_ends()
    inside.worker.send_signal(signal.SIGSTOP)
    await eventually(lambda: psutil.Process(inside.worker.pid).status() == psutil.STATUS_STOPPED)
    inside.look(3)
    inside.earliest[0] = 1.0
    inside.look(3)
    assert await fixture.lease_ends() == before
    inside.worker.send_signal(signal.SIGCONT)
    assert inside.worker.poll() is None


async def test_so_it_is_where_ps_has_to_tell(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS."""
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not inside.keeper._parent.is_stopped()
    inside.worker.send_signal(signal.SIGSTOP)
    await eventually(inside.keeper._parent.is_stopped)


def is_not_implemented(*_: object) -> int:
    raise OSError(errno.ENOSYS, "Function not implemented")


@pytest.mark.parametrize(
    "has_function", [False, True], ids=["as on macOS", "as in gVisor and on old kernels"]
)
async def test_without_a_descriptor_of_the_process_it_is_killed_by_its_id(
    monkeypatch: pytest.MonkeyPatch, has_function: bool
) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    if has_function:
        monkeypatch.setattr(os, "pidfd_open", is_not_implemented, raising=False)
    worker = subprocess.Popen(SLEEPER)
    monkeypatch.setattr(os, "getppid", lambda: worker.pid if worker.poll() is None else 1)
    parent = keeper_process.ParentProcess(worker.pid)
    assert (parent.descriptor, parent.is_there()) == (-1, True)
    assert parent.kill()
    assert worker.wait() == -signal.SIGKILL


async def test_past_a_limit_the_worker_is_killed_and_what_it_held_is_free(
    inside: Inside, fixture: KeeperFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    inside.earliest[0] = time.monotonic() - 1
    inside.look()
    assert inside.worker.poll() is None, "after a pause of the whole machine the worker gets a moment"
    inside.look()
    assert inside.worker.wait(10) == -signal.SIGKILL
    assert await fixture.lease_ends() == 0
    (line,) = capfd.readouterr().err.splitlines()
    assert "holds Python's lock past the max_runtime of a handler and can't end itself: it is killed" in line


async def test_past_max_silence_nothing_is_extended(inside: Inside, fixture: KeeperFixture) -> None:
    before = await fixture.lease_ends()
    inside.keeper._heard = time.monotonic() - 61
    inside.look(3)
    assert await fixture.lease_ends() == before
    assert inside.worker.poll() is None


def test_the_plan_arrives_as_it_was_made() -> None:
    endpoint = Endpoint.parse("rediss://me:se%20cret@h:7/3?ssl_ca_certs=/tmp/c%20a&ssl_cert_reqs=none")
    line = plan_of(endpoint, Keys("n"), BrokerSettings(lease=6), HangPolicy(True, 2.0))
    plan = keeper_process.KeeperPlan(line.rstrip(b"\n"))
    assert (plan.host, plan.port, plan.path, plan.tls, plan.check) == ("h", 7, "", True, False)
    assert (plan.ca_file, plan.parent, plan.workers) == ("/tmp/c a", os.getpid(), b"callboard:{n}:workers")
    assert (plan.lease, plan.patience, plan.quiet, plan.max_silence) == (6000, 2.0, 2.0, 60.0)
    assert (plan.margin, plan.ends, plan.answers) == (2.0, True, 3)
    assert b"se cret" in plan.greeting
    assert plan.farewell[2:] == [b"1", b"callboard:{n}:", b"1", b"1"]
    assert (plan.sentinels, plan.asking, plan.said) == ([], b"", 0)


def test_so_do_those_who_know_where_the_server_is() -> None:
    endpoint = Endpoint.parse("redis+sentinel://me:pw@a,[::1]:7/my%20master?sentinel_password=se%20cret")
    line = plan_of(endpoint, Keys("n"), BrokerSettings(), HangPolicy(True, 2.0))
    plan = keeper_process.KeeperPlan(line.rstrip(b"\n"))
    assert plan.sentinels == [("a", 26379), ("::1", 7)]
    assert plan.said == 3
    assert b"se cret" in plan.asking
    assert b"my master" in plan.asking
    assert b"se cret" not in plan.greeting


def test_a_lease_of_two_beats_is_extended_before_it_ends() -> None:
    line = plan_of(
        Endpoint.parse("redis://"), Keys("n"), BrokerSettings(lease=2, beat_every=1), HangPolicy(True, 2.0)
    )
    plan = keeper_process.KeeperPlan(line.rstrip(b"\n"))
    assert plan.quiet == 1.0
