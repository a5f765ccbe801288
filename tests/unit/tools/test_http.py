"""HTTP tools against a real server."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from callboard import CancellationToken
from callboard.foundation import MissingPackageError
from callboard.memory.llm_messages import Image
from callboard.tools import (
    HttpLimits,
    HttpTool,
    ImageResultContent,
    StaticWorkbench,
    http as http_addresses,
)
from callboard.tools.errors import (
    CallRefusedError,
    HttpToolError,
    ToolArgumentsError,
    ToolConnectionError,
    ToolDeclarationError,
    ToolTimeoutError,
)
from callboard.tools.http import HttpToolConfig
from tests.helpers.eventually import eventually
from tests.helpers.loopback import LoopbackServer
from tests.helpers.schemas import parameters

OPEN = HttpLimits(allow_private=True, max_bytes=10_000)
ANYTHING: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "which one"},
        "count": {"type": "integer", "default": 2},
        "note": {"type": "string"},
    },
    "required": ["id"],
}
PIXEL = b"\x89PNG\r\n\x1a\nand so on"
NONE: dict[str, Any] = {"type": "object", "properties": {}}


class HttpService:
    """The behaviour of the server, and the requests that it has seen."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.gone = asyncio.Event()
        self.target = ""
        routes = [
            Route("/echo/{id:path}", self.echo, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
            Route("/large", self.large),
            Route("/drip", self.drip),
            Route("/slow", self.slow),
            Route("/fail", self.fail),
            Route("/text", lambda request: Response("plain", media_type="text/plain")),
            Route(
                "/latin",
                lambda request: Response("é".encode("latin-1"), media_type="text/plain; charset=latin-1"),
            ),
            Route("/odd", lambda request: Response("x", media_type="text/plain; charset=nonsense")),
            Route("/image", lambda request: Response(PIXEL, media_type="image/png")),
            Route("/bytes", lambda request: Response(b"\x00\xff" * 50, media_type="application/pdf")),
            Route("/broken", lambda request: Response(b"\x00\xff", 500, media_type="application/pdf")),
            Route("/zip", lambda request: Response(b"x", headers={"content-encoding": "gzip"})),
            Route("/away", self.away, methods=["GET", "POST"]),
            Route("/loop", lambda request: RedirectResponse("/loop")),
        ]
        self.app = Starlette(routes=routes)

    async def echo(self, request: Request) -> Response:
        body = await request.body()
        self.seen.append(
            {
                "method": request.method,
                "path": request.scope["raw_path"].decode(),
                "query": request.url.query,
                "body": json.loads(body) if body else None,
                "headers": dict(request.headers),
            }
        )
        return JSONResponse({"ok": True})

    async def large(self, request: Request) -> Response:
        async def endless() -> AsyncIterator[bytes]:
            try:
                while True:
                    yield b"x" * 1000
                    await asyncio.sleep(0)  # a server whose client is gone writes without ever waiting
            finally:
                self.gone.set()

        return StreamingResponse(endless())

    async def drip(self, request: Request) -> Response:
        async def drops() -> AsyncIterator[bytes]:
            while True:
                yield b"x"
                await asyncio.sleep(0.01)

        return StreamingResponse(drops())

    async def slow(self, request: Request) -> Response:
        await asyncio.sleep(30)
        return Response("late")

    async def fail(self, request: Request) -> Response:
        return Response("the id has to be a number " + "x" * 5000, status_code=422)

    async def away(self, request: Request) -> Response:
        return RedirectResponse(self.target, status_code=307)


@pytest.fixture
def service() -> HttpService:
    return HttpService()


@pytest.fixture
async def server(service: HttpService) -> AsyncIterator[LoopbackServer]:
    async with LoopbackServer(service.app) as running:
        yield running


def http_tool(server: LoopbackServer, path: str, **options: Any) -> HttpTool:
    values = {"json_schema": NONE, "limits": OPEN, "method": "GET", "timeout": 10.0, "host": "127.0.0.1"}
    return HttpTool("fetch", port=server.port, path=path, **{**values, **options})


async def run(tool: HttpTool, **arguments: Any) -> Any:
    return await tool.run_json(arguments, CancellationToken())


async def test_arguments_go_where_they_belong(service: HttpService, server: LoopbackServer) -> None:
    post = http_tool(server, "/echo/{id}", json_schema=ANYTHING, method="POST", headers={"X-Key": "k"})
    assert json.loads(await run(post, id="a/b", note="ä")) == {"ok": True}
    get = http_tool(server, "/echo/{id}", json_schema=ANYTHING, return_type="json")
    assert await run(get, id="7", count=3) == {"ok": True}
    put = http_tool(server, "/echo/{id}", json_schema=ANYTHING, method="PUT", query_params=["note"])
    await run(put, id="7", note="n")
    first, second, third = service.seen
    assert (first["method"], first["path"], first["query"]) == ("POST", "/echo/a%2Fb", "")
    assert first["body"] == {"note": "ä", "count": 2}
    assert first["headers"]["x-key"] == "k"
    assert first["headers"]["host"] == f"127.0.0.1:{server.port}"
    assert first["headers"]["content-type"] == "application/json"
    assert (second["method"], second["path"], second["query"], second["body"]) == (
        "GET",
        "/echo/7",
        "count=3",
        None,
    )
    assert (third["method"], third["query"], third["body"]) == ("PUT", "note=n", {"count": 2})


async def test_the_model_is_shown_the_schema_as_it_is(server: LoopbackServer) -> None:
    shown = http_tool(server, "/echo/{id}", json_schema=ANYTHING).schema
    assert parameters(shown)["properties"] == ANYTHING["properties"]


async def test_arguments_that_do_not_fit_are_not_sent(service: HttpService, server: LoopbackServer) -> None:
    tool = http_tool(server, "/echo/{id}", json_schema=ANYTHING)
    for arguments in ({}, {"id": "x", "count": "many"}, {"id": ".."}, {"id": "x", "other": 1}):
        with pytest.raises(ToolArgumentsError):
            await run(tool, **arguments)
    assert service.seen == []


async def test_an_image_is_an_image_and_other_bytes_are_named(server: LoopbackServer) -> None:
    result = await StaticWorkbench([http_tool(server, "/image")]).call_tool("fetch")
    assert result.result == [ImageResultContent(content=Image.from_bytes(PIXEL))]
    with pytest.raises(HttpToolError, match=r"binary \(application/pdf, 100 bytes\)"):
        await run(http_tool(server, "/bytes"))
    with pytest.raises(HttpToolError, match="no JSON but an image"):
        await run(http_tool(server, "/image", return_type="json"))
    with pytest.raises(HttpToolError, match=r"500 Internal Server Error\Z"):
        await run(http_tool(server, "/broken"))


async def test_texts_are_decoded_by_their_character_set(server: LoopbackServer) -> None:
    assert await run(http_tool(server, "/text")) == "plain"
    assert await run(http_tool(server, "/latin")) == "é"
    with pytest.raises(HttpToolError, match="character set"):
        await run(http_tool(server, "/odd"))
    with pytest.raises(HttpToolError, match="no JSON"):
        await run(http_tool(server, "/text", return_type="json"))
    with pytest.raises(HttpToolError, match=r"compressed \(gzip\)"):
        await run(http_tool(server, "/zip"))


async def test_an_error_of_the_server_is_one_of_the_tool(server: LoopbackServer) -> None:
    with pytest.raises(HttpToolError, match="422") as caught:
        await run(http_tool(server, "/fail"))
    assert caught.value.body.startswith("the id has to be a number")
    assert len(caught.value.body) == 2000
    with pytest.raises(HttpToolError, match="404"):
        await run(http_tool(server, "/nothing"))


async def test_an_answer_without_end_is_cut_off(service: HttpService, server: LoopbackServer) -> None:
    with pytest.raises(HttpToolError, match="more than 10,000 bytes"):
        await run(http_tool(server, "/large"))
    await eventually(service.gone.is_set)


@pytest.mark.parametrize("path", ["/slow", "/drip"])
async def test_the_time_limit_is_for_all_of_it(server: LoopbackServer, path: str) -> None:
    with pytest.raises(ToolTimeoutError, match=r"within 0\.2 s"):
        await run(http_tool(server, path, timeout=0.2, limits=HttpLimits(allow_private=True)))


async def test_a_token_ends_a_request(server: LoopbackServer) -> None:
    token = CancellationToken()
    workbench = StaticWorkbench([http_tool(server, "/slow", timeout=60.0)])
    calling = asyncio.ensure_future(workbench.call_tool("fetch", {}, token))
    await asyncio.sleep(0.05)
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling


# Where requests may go


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1"])
async def test_private_addresses_are_refused_unless_allowed(
    service: HttpService, server: LoopbackServer, host: str
) -> None:
    with pytest.raises(CallRefusedError, match="no request was sent"):
        await run(http_tool(server, "/echo/1", host=host, limits=HttpLimits()))
    assert service.seen == []


class Names:
    """A name server of the test: what it answers, one answer after the other; how often it was asked."""

    def __init__(self, **answers: list[list[str]]) -> None:
        self.answers = {name.replace("_", "."): list(found) for name, found in answers.items()}
        self.asked: list[str] = []

    async def lookup(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        found = self.answers[host]
        return found.pop(0) if len(found) > 1 else found[0]


async def test_a_redirect_to_a_private_address_is_refused(
    service: HttpService, server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The public host is one whose address is taken for public, so that the server here can play it."""
    names = Names(public_test=[["127.0.0.1"]], inside_test=[["10.0.0.7"]])
    monkeypatch.setattr(http_addresses, "lookup", names.lookup)
    monkeypatch.setattr(http_addresses, "is_public", lambda address: address == "127.0.0.1")
    limits = HttpLimits(allowed_hosts=["inside.test", "169.254.169.254"])
    tool = http_tool(server, "/away", host="public.test", limits=limits)
    service.target = f"http://inside.test:{server.port}/echo/1"
    with pytest.raises(CallRefusedError, match=r"inside.test has the address 10\.0\.0\.7"):
        await run(tool)
    names.answers["169.254.169.254"] = [["169.254.169.254"]]
    service.target = f"http://169.254.169.254:{server.port}/latest/meta-data"
    with pytest.raises(CallRefusedError, match=r"169\.254\.169\.254"):
        await run(tool)
    assert service.seen == []


async def test_a_name_that_changes_its_address_gains_nothing(
    service: HttpService, server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second answer leads inside; it is never asked for, and the connection goes to the first, which was checked."""
    names = Names(rebind_test=[["127.0.0.1"], ["10.0.0.7"]])
    connected: list[str] = []
    monkeypatch.setattr(http_addresses, "lookup", names.lookup)
    monkeypatch.setattr(http_addresses, "is_public", lambda address: address == "127.0.0.1")
    original = HttpTool._send_to

    async def watched(self: HttpTool, client: Any, request: Any, address: str) -> Any:
        connected.append(address)
        return await original(self, client, request, address)

    monkeypatch.setattr(HttpTool, "_send_to", watched)
    await run(http_tool(server, "/echo/1", host="rebind.test", limits=HttpLimits()))
    assert (names.asked, connected) == (["rebind.test"], ["127.0.0.1"])
    assert service.seen[0]["headers"]["host"] == f"rebind.test:{server.port}"


async def test_the_next_address_is_tried_when_one_does_not_answer(
    server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names(two_test=[["::1", "127.0.0.1"]], none_test=[["::1"]], empty_test=[[]])
    monkeypatch.setattr(http_addresses, "lookup", names.lookup)
    assert await run(http_tool(server, "/text", host="two.test")) == "plain"
    for host in ("none.test", "empty.test"):
        with pytest.raises(ToolConnectionError, match=host):
            await run(http_tool(server, "/text", host=host))


async def test_redirects_stay_on_allowed_hosts(
    service: HttpService, server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names(
        **{name: [["127.0.0.1"]] for name in ("api_test", "cdn_api_test", "evil_test", "xapi_test")}
    )
    monkeypatch.setattr(http_addresses, "lookup", names.lookup)
    limits = HttpLimits(allow_private=True, allowed_hosts=["*.api.test"])
    tool = http_tool(server, "/away", host="api.test", limits=limits, headers={"Authorization": "secret"})
    for host in ("evil.test", "xapi.test", "api.test.evil.test"):
        service.target = f"http://{host}:{server.port}/echo/1"
        with pytest.raises(CallRefusedError, match="requests may go to") as caught:
            await run(tool)
        assert "secret" not in str(caught.value)
    assert service.seen == []
    service.target = f"http://cdn.api.test:{server.port}/echo/1"
    await run(tool)
    service.target = "/echo/2"
    await run(tool)
    elsewhere, here = service.seen
    assert "authorization" not in elsewhere["headers"]
    assert here["headers"]["authorization"] == "secret"


async def test_a_redirect_keeps_the_body_where_it_should(
    service: HttpService, server: LoopbackServer
) -> None:
    service.target = "/echo/1"
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    await run(http_tool(server, "/away", method="POST", json_schema=schema), a=1)
    assert (service.seen[0]["method"], service.seen[0]["body"]) == ("POST", {"a": 1})


async def test_redirects_in_a_circle_end(server: LoopbackServer) -> None:
    with pytest.raises(HttpToolError, match="more than 5"):
        await run(http_tool(server, "/loop"))


async def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    tool = HttpTool("fetch", "127.0.0.1", port, NONE, method="GET", limits=OPEN)
    with pytest.raises(ToolConnectionError, match=r"127\.0\.0\.1 gave no answer"):
        await run(tool)


async def test_something_that_is_no_http_server() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as nonsense:
        port = nonsense.sockets[0].getsockname()[1]
        with pytest.raises(ToolConnectionError):
            await run(HttpTool("fetch", "127.0.0.1", port, NONE, method="GET", limits=OPEN))


async def test_proxies_of_the_environment_are_not_used(
    server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert await run(http_tool(server, "/text")) == "plain"


# TLS


def certificate(folder: Path, name: str) -> tuple[str, str]:
    """A certificate for one name that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "key.pem").write_bytes(private)
    return str(folder / "cert.pem"), str(folder / "key.pem")


async def test_the_certificate_is_checked_for_the_name_and_not_for_the_address(
    service: HttpService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = certificate(tmp_path, "secure.test")
    trusted = ssl.create_default_context(cafile=cert)
    names = Names(secure_test=[["127.0.0.1"]], other_test=[["127.0.0.1"]])
    monkeypatch.setattr(http_addresses, "lookup", names.lookup)
    async with LoopbackServer(service.app, ssl_certfile=cert, ssl_keyfile=key) as server:
        options: dict[str, Any] = {"scheme": "https", "ssl_context": trusted}
        assert await run(http_tool(server, "/text", host="secure.test", **options)) == "plain"
        with pytest.raises(ToolConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
            await run(http_tool(server, "/text", host="other.test", **options))
        with pytest.raises(ToolConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
            await run(http_tool(server, "/text", host="secure.test", scheme="https"))


# Declaring


class TestDeclaring:
    GOOD: ClassVar[dict[str, Any]] = {"name": "fetch", "host": "a.test", "port": 80, "json_schema": ANYTHING}

    @pytest.mark.parametrize(
        ("changes", "problem"),
        [
            ({"host": "http://a.test"}, "is no host"),
            ({"host": "user@a.test"}, "is no host"),
            ({"host": ""}, "is no host"),
            ({"path": "x"}, "begin with /"),
            ({"path": "/{other}"}, "required property"),
            ({"path": "/{note}"}, "required property"),
            ({"query_params": ["other"]}, "query_params names 'other'"),
            ({"json_schema": {"type": "array"}}, "has to be of"),
            ({"port": 0}, "is no port"),
        ],
    )
    def test_what_can_not_work_is_refused_at_once(self, changes: dict[str, Any], problem: str) -> None:
        with pytest.raises(ToolDeclarationError, match=problem):
            HttpTool(**{**self.GOOD, **changes})

    def test_a_config_makes_the_tool_again(self) -> None:
        tool = HttpTool(
            **self.GOOD, path="/{id}", limits=HttpLimits(allowed_hosts=("b.test",)), query_params=["note"]
        )
        config = HttpToolConfig.model_validate_json(tool.to_config().model_dump_json())
        again = HttpTool.from_config(config)
        assert again.schema == tool.schema
        assert again.to_config() == tool.to_config()

    async def test_without_httpx2_it_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "httpx2", None)
        with pytest.raises(MissingPackageError, match=r"callboard\[http\]"):
            await run(HttpTool(**self.GOOD), id="1")
