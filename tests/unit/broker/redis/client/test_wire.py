from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import hiredis
import pytest

from callboard.broker.errors import (
    CommandError,
    ConnectionLostError,
    EncodeError,
    OverloadedError,
    ServerUnavailableError,
)
from callboard.broker.redis.client.blocking import BlockingWire
from callboard.broker.redis.client.endpoint import Endpoint
from callboard.broker.redis.client.wire import Beginning, Wire, pack, pack_behind, translate
from tests.helpers.eventually import eventually
from tests.helpers.peers import Client, Talk, peer, silent
from tests.helpers.servers import ServerProcess

X, ECHO = Beginning.of("X"), Beginning.of("ECHO")


async def opened(url: str, connect_timeout: float = 5.0) -> Wire:
    return await Wire.open(Endpoint.parse(url), "a test", connect_timeout)


async def echo(client: Client) -> None:
    """Answers ECHO as servers do, and anything else with OK."""
    while (command := await client.command()) is not None:
        text = command[1] if command[0] == b"ECHO" else b"OK"
        await client.say(b"$%d\r\n%s\r\n" % (len(text), text))


async def echo_but_pings(client: Client) -> None:
    """Answers everything but PING."""
    while (command := await client.command()) is not None:
        if command[0] != b"PING":
            await client.say(b"+%s\r\n" % command[-1])


def once(*said: bytes, then: Talk = silent) -> Talk:
    """Says these after the first command, each as a packet of its own."""

    async def talk(client: Client) -> None:
        await client.command()
        for part in said:
            await client.say(part)
            await asyncio.sleep(0)
        await then(client)

    return talk


async def cut(client: Client) -> None:
    client.cut()


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    """A connection to a server that answers."""
    async with peer(echo) as server:
        made = await opened(server.url)
        yield made
        made.close()


# Commands and answers


async def test_answers_come_in_the_order_of_the_commands(wire: Wire) -> None:
    calls = [wire.call(("ECHO", str(number))) for number in range(100)]
    assert [await call for call in calls] == [b"%d" % number for number in range(100)]
    assert wire.is_open


async def test_a_new_connection_says_its_name() -> None:
    async with peer(echo) as server:
        wire = await opened(server.url)
        assert server.commands == [[b"CLIENT", b"SETNAME", b"a_test"]]
        wire.close()


async def test_an_answer_may_come_in_pieces() -> None:
    answer = b"*3\r\n$5\r\nhello\r\n:42\r\n*1\r\n$-1\r\n"
    async with peer(once(*(bytes([byte]) for byte in answer))) as server:
        wire = await opened(server.url)
        assert await wire.call(("X",)) == [b"hello", 42, [None]]
        wire.close()


async def test_several_answers_may_come_in_one_piece() -> None:
    async with peer(once(b"+one\r\n:2\r\n$5\r\nthree\r\n+fo", b"ur\r\n")) as server:
        wire = await opened(server.url)
        calls = [wire.call(("X",)) for _ in range(4)]
        assert [await call for call in calls] == [b"one", 2, b"three", b"four"]
        wire.close()


async def test_an_error_fails_its_own_command_only() -> None:
    async with peer(once(b"+one\r\n-ERR no such thing\r\n+three\r\n")) as server:
        wire = await opened(server.url)
        first, second, third = (wire.call(("X",)) for _ in range(3))
        assert await first == b"one"
        with pytest.raises(CommandError, match=r"^ERR no such thing$"):
            await second
        assert await third == b"three"
        wire.close()


# Two commands at once


class Counted:
    """A connection that keeps what is written to it, piece by piece."""

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self._transport = transport
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)
        self._transport.write(data)

    def abort(self) -> None:
        self._transport.abort()


async def test_two_commands_leave_in_one_piece(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each write wakes the server, and a worker that goes to sleep says two things."""
    assert wire._transport is not None
    counted = Counted(wire._transport)
    monkeypatch.setattr(wire, "_transport", counted)
    assert await wire.call_both(Beginning.of("ECHO", "a"), ECHO, ("b",), 5) == [b"a", b"b"]
    assert counted.written == [pack(("ECHO", "a")) + pack(("ECHO", "b"))]


async def test_of_two_commands_one_may_fail() -> None:
    async with peer(once(b"-ERR no\r\n", then=echo)) as server:
        wire = await opened(server.url)
        first, second = await wire.call_both(X, ECHO, ("two",), 5)
        assert isinstance(first, CommandError)
        assert second == b"two"
        wire.close()


async def test_of_two_commands_the_answers_may_be_waited_for_no_more() -> None:
    async with peer(once(b"+one\r\n", then=echo)) as server:
        wire = await opened(server.url)
        waiting = asyncio.ensure_future(wire.call_both(X, ECHO, ("two",), 5))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert await wire.call(("ECHO", "three")) == b"three"
        wire.close()


async def test_a_broken_connection_fails_both_commands() -> None:
    async with peer(cut) as server:
        wire = await opened(server.url)
        for _ in range(2):
            answers = await wire.call_both(X, X, (), 5)
            assert [type(answer) for answer in answers] == [ConnectionLostError] * 2


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ERR unknown command", CommandError),
        ("NOPERM no", CommandError),
        ("OOM command not allowed when used memory > 'maxmemory'.", OverloadedError),
        ("ERR Error running script: OOM command not allowed when used memory", OverloadedError),
        ("LOADING Redis is loading the dataset in memory", ServerUnavailableError),
        ("MISCONF Errors writing to the AOF file: No space left on device", ServerUnavailableError),
        ("READONLY You can't write against a read only replica.", ServerUnavailableError),
        ("MASTERDOWN Link with MASTER is down", ServerUnavailableError),
        ("NOREPLICAS Not enough good replicas to write.", ServerUnavailableError),
        ("UNBLOCKED force unblock from blocking operation", ServerUnavailableError),
        ("CLUSTERDOWN Hash slot not served", ServerUnavailableError),
    ],
)
def test_errors_of_the_server_have_a_class(text: str, kind: type[Exception]) -> None:
    error = translate(hiredis.ReplyError(text), "redis://here")
    assert type(error) is kind
    if isinstance(error, ServerUnavailableError):
        assert error.trouble == ("writes" if text.startswith("MISCONF") else "away")


DEMOTED = (
    "READONLY You can't write",
    "MASTERDOWN Link is down",
    "NOREPLICAS Not enough",
    "UNBLOCKED force unblock",
)


@pytest.mark.parametrize("said", DEMOTED)
async def test_a_server_that_is_the_primary_no_more_is_left(said: str) -> None:
    """It would go on answering: what waits there for something to come would wait for ever."""
    async with peer(once(f"-{said}\r\n".encode(), then=silent)) as server:
        wire = await opened(server.url)
        first, second = wire.call(("X",)), wire.call(("BLPOP", "bell", "0"))
        with pytest.raises(ServerUnavailableError):
            await first
        assert not wire.is_open
        with pytest.raises(ConnectionLostError):
            await second


async def test_a_server_that_loads_its_data_is_not_left() -> None:
    async with peer(once(b"-LOADING Redis is loading\r\n+OK\r\n")) as server:
        wire = await opened(server.url)
        first, second = wire.call(("X",)), wire.call(("X",))
        with pytest.raises(ServerUnavailableError):
            await first
        assert await second == b"OK"
        assert wire.is_open
        wire.close()


@pytest.mark.parametrize("said", DEMOTED)
async def test_a_thread_leaves_it_too(said: str) -> None:
    async with peer(once(f"-{said}\r\n+OK\r\n".encode())) as server:
        wire = await asyncio.to_thread(BlockingWire, Endpoint.parse(server.url), 5)
        with pytest.raises(ServerUnavailableError):
            await asyncio.to_thread(wire.call, ("X",))
        with pytest.raises(ConnectionLostError):
            await asyncio.to_thread(wire.call, ("X",))


@pytest.mark.parametrize("wrong", [None, True, [1], "half \ud800"], ids=repr)
async def test_what_cannot_be_sent_fails_alone(wire: Wire, wrong: object) -> None:
    before = wire.call(("ECHO", "before"))
    with pytest.raises(EncodeError):
        await wire.call(("ECHO", wrong))  # type: ignore[arg-type]
    after = wire.call(("ECHO", "after"))
    assert await before == b"before"
    assert await after == b"after", "the answers still belong to their commands"


def test_numbers_and_texts_become_bytes() -> None:
    assert (
        pack(("A", b"\xff", 7, 1.5, "é"))
        == b"*5\r\n$1\r\nA\r\n$1\r\n\xff\r\n$1\r\n7\r\n$3\r\n1.5\r\n$2\r\n\xc3\xa9\r\n"
    )


@pytest.mark.parametrize("rest", [(), ("b",), (b"\n", 7, "\u00e9" * 200), tuple(range(20))], ids=len)
def test_a_beginning_is_packed_as_if_it_were_not(rest: tuple[bytes | str | int, ...]) -> None:
    assert pack_behind(Beginning.of("A", "one\n", 2), rest) == pack(("A", "one\n", 2, *rest))


async def test_what_cannot_be_sent_behind_a_beginning_fails_alone(wire: Wire) -> None:
    with pytest.raises(EncodeError):
        await wire.call_within(("half \ud800",), 5, ECHO)
    assert await wire.call_within(("after",), 5, ECHO) == b"after"


async def test_a_caller_that_gave_up_does_not_shift_the_answers() -> None:
    go = asyncio.Event()

    async def talk(client: Client) -> None:
        await client.command()
        await go.wait()
        await client.say(b"+first\r\n+second\r\n")
        await silent(client)

    async with peer(talk) as server:
        wire = await opened(server.url)
        given_up = asyncio.ensure_future(wire.call_within(("X",), 5))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(wire.call_within(("Y",), 5))
        await asyncio.sleep(0)
        given_up.cancel()
        go.set()
        assert await second == b"second"
        wire.close()


# Connections that break


async def test_a_server_that_never_answers_is_noticed() -> None:
    async with peer(silent) as server:
        wire = await opened(server.url)
        other = wire.call(("Y",))
        with pytest.raises(ConnectionLostError, match=r"no answer within 0\.05 s"):
            await wire.call_within(("X",), 0.05)
        assert not wire.is_open
        with pytest.raises(ConnectionLostError):
            await other
        with pytest.raises(ConnectionLostError, match=r"no answer within 0\.05 s"):
            await wire.call(("Z",))


async def test_each_call_has_its_own_time() -> None:
    """There is one timer for all: what has more time does not lend it to what has less, nor the other way round."""
    async with peer(echo_but_pings) as server:
        wire = await opened(server.url)
        assert await wire.call_within(("ECHO", "a"), 0.03) == b"a"
        long = asyncio.ensure_future(wire.call_within(("PING",), 30))
        given_up = asyncio.ensure_future(wire.call_within(("PING",), 0.04))
        given_up.cancel()
        await asyncio.sleep(0.08)
        assert wire.is_open, "nobody waits for an answer that is late"
        with pytest.raises(ConnectionLostError, match=r"no answer within 0\.05 s"):
            await asyncio.wait_for(wire.call_within(("PING",), 0.05), 2)
        with pytest.raises(ConnectionLostError, match=r"no answer within 0\.05 s"):
            await asyncio.wait_for(long, 2)


async def test_an_answer_that_stops_half_way_is_noticed() -> None:
    async with peer(once(b"$100\r\nonly so much")) as server:
        wire = await opened(server.url)
        with pytest.raises(ConnectionLostError):
            await wire.call_within(("X",), 0.05)


async def test_a_connection_that_is_cut_in_an_answer_fails_everybody_who_waits() -> None:
    async with peer(once(b"+one\r\n$100\r\nonly so much", then=cut)) as server:
        wire = await opened(server.url)
        calls = [wire.call(("X",)) for _ in range(5)]
        done = await asyncio.gather(*calls, return_exceptions=True)
        assert done[0] in (b"one", done[1])
        assert all(type(error) is ConnectionLostError for error in done[1:])
        assert not wire.is_open


async def test_a_server_that_hangs_up_is_noticed_without_a_call() -> None:
    async with peer(cut) as server:
        wire = await opened(server.url)
        await eventually(lambda: not wire.is_open)
        with pytest.raises(ConnectionLostError, match=server.url):
            await wire.call(("X",))


async def test_closing_fails_everybody_who_waits() -> None:
    async with peer(silent) as server:
        wire = await opened(server.url)
        call = wire.call(("X",))
        wire.close("the test is over")
        with pytest.raises(ConnectionLostError, match="the test is over"):
            await call
        wire.close("twice")


async def test_an_answer_that_nobody_asked_for_ends_the_connection() -> None:
    async with peer(once(b"+one\r\n+surprise\r\n")) as server:
        wire = await opened(server.url)
        assert await wire.call(("X",)) == b"one"
        await eventually(lambda: not wire.is_open)


async def test_something_else_than_a_server_is_noticed() -> None:
    async with peer(once(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as server:
        wire = await opened(server.url)
        with pytest.raises(ConnectionLostError, match="this is no Redis server"):
            await wire.call(("X",))
        assert not wire.is_open


# Connecting


async def test_nobody_listens() -> None:
    async with peer(silent) as server:
        url = server.url
    with pytest.raises(ServerUnavailableError, match=f"no Redis server can be reached at {url}"):
        await opened(url)


async def test_nobody_greets() -> None:
    async with peer(silent, greets=False) as server:
        with pytest.raises(ServerUnavailableError, match="TimeoutError"):
            await opened(server.url, connect_timeout=0.05)


async def test_a_cancelled_attempt_leaves_no_connection() -> None:
    heard = asyncio.Event()

    async def talk(client: Client) -> None:
        await client.command()
        heard.set()
        assert await client.command() is None

    async with peer(talk, greets=False) as server:
        attempt = asyncio.create_task(opened(server.url))
        await heard.wait()
        attempt.cancel()
        await eventually(lambda: not server.tasks)


@pytest.mark.parametrize("host", ["a..b", "x" * 70, "no.such.host.invalid"])
async def test_a_host_that_cannot_be_found(host: str) -> None:
    with pytest.raises(ServerUnavailableError):
        await opened(f"redis://{host}:6379")


async def test_a_socket_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ServerUnavailableError, match=r"s\.sock"):
        await opened(f"unix://{tmp_path}/s.sock")


@pytest.fixture(scope="module")
def locked() -> Iterator[ServerProcess]:
    """A server with a password."""
    with ServerProcess(access="tcp") as server:
        wire = BlockingWire(Endpoint.parse(server.url), 5)
        wire.call(("CONFIG", "SET", "requirepass", "s3cret"))
        wire.close()
        yield server


async def test_a_wrong_password_is_refused_and_not_shown(locked: ServerProcess) -> None:
    with pytest.raises(ServerUnavailableError, match=r"refuses the login \(WRONGPASS") as caught:
        await opened(f"redis://:hunter2@127.0.0.1:{locked.port}")
    assert "hunter2" not in str(caught.value) + repr(caught.value)
    with pytest.raises(ServerUnavailableError, match=r"NOAUTH.*redis://USER:PASSWORD@HOST"):
        await opened(f"redis://127.0.0.1:{locked.port}")


@pytest.mark.parametrize("login", [":s3cret", "default:s3cret"])
async def test_a_password_and_a_database(locked: ServerProcess, login: str) -> None:
    wire = await opened(f"redis://{login}@127.0.0.1:{locked.port}/3")
    assert b"db=3" in await wire.call(("CLIENT", "INFO"))
    wire.close()


async def test_a_database_that_the_server_does_not_have(locked: ServerProcess) -> None:
    with pytest.raises(ServerUnavailableError, match="DB index is out of range"):
        await opened(f"redis://:s3cret@127.0.0.1:{locked.port}/99")


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for the loopback that nobody signed but itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: there is nothing to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    paths = folder / "cert.pem", folder / "key.pem"
    made = ("-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    named = ("-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1")
    command = ["openssl", "req", *made, *named, "-out", str(paths[0]), "-keyout", str(paths[1])]
    subprocess.run(command, check=True, capture_output=True)
    return paths


@pytest.fixture
def tls(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    return context


async def test_a_certificate_of_an_unknown_signer_is_refused(tls: ssl.SSLContext) -> None:
    async with peer(echo, tls=tls) as server:
        with pytest.raises(ServerUnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
            await opened(server.url)
        assert server.commands == [], "nothing was said in the clear"


@pytest.mark.parametrize("query", ["?ssl_ca_certs={}", "?ssl_cert_reqs=none"])
async def test_a_certificate_that_is_trusted(
    tls: ssl.SSLContext, certificate: tuple[Path, Path], query: str
) -> None:
    async with peer(echo, tls=tls) as server:
        wire = await opened(server.url + query.format(certificate[0]))
        assert await wire.call(("ECHO", "secret")) == b"secret"
        wire.close()


async def test_a_list_of_signers_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ServerUnavailableError, match="No such file"):
        await opened(f"rediss://127.0.0.1:1?ssl_ca_certs={tmp_path}/none.pem")


async def test_a_server_without_tls_is_not_spoken_to_in_the_clear() -> None:
    heard = []

    async def talk(client: Client) -> None:
        heard.append(await client.read(3))
        await client.say(b"-ERR Protocol error\r\n")

    async with peer(talk, greets=False) as server:
        with pytest.raises(ServerUnavailableError):
            await opened(server.url.replace("redis://", "rediss://:s3cret@"), connect_timeout=2)
    assert heard == [b"\x16\x03\x01"], "a TLS handshake"
