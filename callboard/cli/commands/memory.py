"""`callboard memory`: documents into long-term memory, searches in it, verifying and clearing it."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from callboard.cli.exits import bad_use
from callboard.cli.messages import parse_fields
from callboard.cli.options import AsJson, Namespace, Url, command
from callboard.cli.output import print_json, progress, remark, say, say_table
from callboard.cli.sessions import namespace_of, publisher, run
from callboard.foundation.texts import shell_line

if TYPE_CHECKING:
    from callboard.app import App
    from callboard.memory.chroma import ChromaDBVectorMemory
    from callboard.memory.documents import Chunk, ChunkSettings
    from callboard.memory.embedders import Embedder, TextLimit
    from callboard.memory.stores import MemoryCheck, MemoryStats
    from callboard.memory_service import MemoryServiceClient


HASHING = "hashing"
"""Given instead of a model's folder: vectors that know words only, for tests."""


@dataclass(frozen=True, slots=True)
class MemoryLocation:
    """The memory that a command is about.

    Attributes:
        target: `module:app` of a running memory service; None: the store itself.
        path: Folder of the store.
        chroma: URL of a Chroma server.
        url: Redis server of the app.
        namespace: Of the memories; None: the app's, CALLBOARD_NAMESPACE, or `main`.
        agent: The agent that remembers.
        model: Embedding model.
    """

    target: str | None
    path: Path | None
    chroma: str | None
    url: str | None
    namespace: str | None
    agent: str
    model: str | None = None

    def __post_init__(self) -> None:
        if sum(given is not None for given in (self.target, self.path, self.chroma)) > 1:
            bad_use("give one of --app, --path and --chroma: each says where the memory is")
        if self.target is not None and self.model is not None:
            bad_use("--model goes without --app: a memory service has its own model")

    @contextlib.asynccontextmanager
    async def opened(
        self, *, makes: bool = False, embeds: bool = False, quick: bool = True
    ) -> AsyncIterator[ChromaDBVectorMemory | MemoryServiceClient]:
        """The memory, until the end of the block.

        Args:
            makes: The folder is made if it does not exist.
            embeds: Texts are embedded. Only then is there a model: it may not be installed.
            quick: Only few texts are embedded, so a model that starts fast is better than one that runs fast.
        """
        if self.target is not None:
            async with self._through_service() as client:
                yield client
            return
        from callboard.memory.chroma import ChromaDBVectorMemory

        self._check(makes)
        embedder = embedder_of(self.model, quick=quick) if embeds else None
        memory = ChromaDBVectorMemory(self._config(), embedder)
        try:
            yield memory
        finally:
            await memory.close()

    async def verified(self, *, repair: bool) -> list[MemoryCheck]:
        """Every memory of the store looked through; through a service, those of its namespace."""
        async with self.opened() as first:
            found = [one for one in await first.all_stats() if self.namespace in (None, one.namespace)]
            if self.target is not None:
                return await self._verified_by_service(found, repair)
        checks = []
        for one in found:
            memory = self._memory_of(one)
            try:
                checks.append(await memory.verify(repair=repair))
            finally:
                await memory.close()
        return checks

    def _memory_of(self, stats: MemoryStats) -> ChromaDBVectorMemory:
        from callboard.memory.chroma import ChromaDBVectorMemory

        model = self.model or (HASHING if (stats.model or "").startswith(HASHING) else None)
        config = replace(self._config(), collection_name=stats.collection)
        # None: that of the process, when it is needed; it may not be installed.
        return ChromaDBVectorMemory(config, None if model is None else embedder_of(model, quick=False))

    async def _verified_by_service(self, found: list[MemoryStats], repair: bool) -> list[MemoryCheck]:
        namespace = self.namespace_in_force
        agents = [one.agent for one in found if one.agent is not None and one.namespace == namespace]
        checks = []
        for agent in agents:
            async with replace(self, agent=agent).opened() as memory:
                checks.append(await memory.verify(repair=repair))
        return checks

    async def limit(self) -> TextLimit | None:
        """The longest text that the embedding model reads whole; None: any. The model itself is not loaded."""
        from callboard.memory.embedders import limit_of

        if self.target is None:
            return await limit_of(embedder_of(self.model, quick=True))
        from callboard.memory_service import embedder_of_service
        from callboard.process.loader import load_app

        app = load_app(self.target)
        embedder = embedder_of_service(app[service_of(app)])
        return None if embedder is None else await limit_of(embedder)

    @contextlib.asynccontextmanager
    async def _through_service(self) -> AsyncIterator[MemoryServiceClient]:
        from callboard.memory_service import MemoryServiceClient
        from callboard.process.loader import load_app

        app = load_app(self.target or "")
        service = service_of(app)
        async with publisher(app, self.url, self.namespace) as runtime:
            yield MemoryServiceClient(runtime, self.agent, service=service)

    def _check(self, makes: bool) -> None:
        if self.chroma is None and not makes and not self._folder.is_dir():
            bad_use(f"there is no memory in {self._folder}: `callboard memory import` makes one")

    @property
    def namespace_in_force(self) -> str:
        """The namespace whose memories these are."""
        from callboard.process.loader import load_app

        return namespace_of(None if self.target is None else load_app(self.target), self.namespace)

    @property
    def _folder(self) -> Path:
        from callboard.memory_service import DEFAULT_PATH

        return self.path or DEFAULT_PATH

    def _config(self) -> Any:
        from callboard.memory.chroma_config import (
            HttpChromaDBVectorMemoryConfig,
            PersistentChromaDBVectorMemoryConfig,
        )

        namespace = self.namespace_in_force
        if self.chroma is not None:
            return HttpChromaDBVectorMemoryConfig.from_url(self.chroma, namespace=namespace, agent=self.agent)
        return PersistentChromaDBVectorMemoryConfig(
            persistence_path=self._folder, namespace=namespace, agent=self.agent
        )


def embedder_of(model: str | None, *, quick: bool) -> Embedder:
    """The embedder for `--model`."""
    from callboard.memory.local_embedders import HashingEmbedder, default_embedder, quick_embedder

    if model == HASHING:
        return HashingEmbedder()
    return quick_embedder(model) if quick else default_embedder(model)


def service_of(app: App) -> str:
    """The agent type of an app's memory service."""
    from callboard.memory_service import MemoryService

    types = [
        one.type
        for one in app.declarations
        if issubclass(one.agent_class, MemoryService) and one.beside is None
    ]
    if not types:
        bad_use(f"the app {app.name} has no memory: give it one with memory_service(app), or use --path")
    return types[0]


DEFAULT_AGENT = "default"
SHOWN = 300  # characters of a memory in a list

memory = typer.Typer(
    help="Long-term memory: import, search, verify and clear it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Target = Annotated[
    str | None,
    typer.Option(
        "--app",
        metavar="MODULE:APP",
        help="Reach the memory through this app's memory service, which has to run.",
    ),
]
Store = Annotated[
    Path | None,
    typer.Option("--path", metavar="FOLDER", help="Folder of the store. Default: .callboard/memory."),
]
ServerUrl = Annotated[
    str | None,
    typer.Option("--chroma", metavar="URL", help="A Chroma server, such as http://127.0.0.1:8000."),
]
Agent = Annotated[
    str, typer.Option(metavar="NAME", help="Whose memory: an agent such as writer/default, or any name.")
]
Model = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER",
        help="Embedding model: a folder, or a name in the cache of sentence-transformers; "
        "`hashing` knows words only, for tests. Default: the packaged all-MiniLM-L6-v2.",
    ),
]


def import_(
    paths: Annotated[
        list[Path], typer.Argument(metavar="FILE or FOLDER...", help=".md or .txt files, or folders of them.")
    ],
    target: Target = None,
    path: Store = None,
    chroma: ServerUrl = None,
    agent: Agent = DEFAULT_AGENT,
    size: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Most tokens of the embedding model in a piece. Default: as many as it reads, but at most 256.",
        ),
    ] = None,
    overlap: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Most tokens that a piece repeats of the one before it. Default: an eighth of the size.",
        ),
    ] = None,
    characters: Annotated[
        bool,
        typer.Option("--characters", help="Count characters instead of tokens. Default size: 1,000."),
    ] = False,
    model: Model = None,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Import documents. They are cut into pieces along their headings, paragraphs and sentences.

    Importing a document again replaces its earlier version, and only new pieces are embedded. When it is
    interrupted, the document in progress is left out, and running it again goes on from there.

      callboard memory import docs README.md
      callboard memory import handbook.md --agent writer/default --size 128
      callboard memory import notes --app counting:app        while a worker runs its memory service
    """
    location = MemoryLocation(target, path, chroma, url, namespace, agent, model)
    settings = run(_chunk_settings(location, size, overlap, characters))
    documents = _read(paths, settings)
    run(_import_all(location, documents))


async def _chunk_settings(
    location: MemoryLocation, size: int | None, overlap: int | None, characters: bool
) -> ChunkSettings:
    from callboard.memory.documents import ChunkSettings

    limit = None if characters else await location.limit()
    return ChunkSettings.reading(limit, size=size, overlap=overlap)


def _read(paths: list[Path], settings: ChunkSettings) -> list[tuple[str, list[Chunk]]]:
    """Names and pieces of all documents."""
    from callboard.memory.documents import chunk, load_documents

    found: list[tuple[str, list[Chunk]]] = []
    for path in paths:
        documents = load_documents(path)
        for note in documents.left_out:
            remark(f"left out: {note}")
        folder = path.name if path.is_dir() else ""
        for document in documents.found:
            name = f"{folder}/{document.name}" if folder else document.name
            found.append((name, chunk(document.text, settings)))
    return found


async def _import_all(location: MemoryLocation, documents: list[tuple[str, list[Chunk]]]) -> None:
    from callboard.memory.documents import import_document

    added = removed = done = 0
    total = sum(len(chunks) for _, chunks in documents)
    async with location.opened(makes=True, embeds=True, quick=total <= 50) as memory:
        with progress("importing", total) as advance:
            try:
                for name, chunks in documents:
                    result = await import_document(memory, name, chunks, advance)
                    added, removed, done = added + result.added, removed + result.removed, done + 1
            except asyncio.CancelledError:
                remark(
                    f"callboard: stopped after {done} of {len(documents)} documents; run it again to go on"
                )
                raise
    say(
        f"{_counted(done, 'document')} in {_counted(total, 'piece')}: "
        f"{added:,} new, {total - added:,} known, {removed:,} removed"
    )


def query(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to look for.")],
    k: Annotated[int, typer.Option("-k", metavar="N", min=1, help="Most results.")] = 5,
    threshold: Annotated[
        float | None, typer.Option(metavar="SCORE", help="Lowest score, such as 0.6; 1 is the same text.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Only what has this in its metadata; may be repeated."),
    ] = None,
    target: Target = None,
    path: Store = None,
    chroma: ServerUrl = None,
    agent: Agent = DEFAULT_AGENT,
    model: Model = None,
    url: Url = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Search by meaning; the best match comes first.

    The number in front is the score: 1 is the same text, 0.5 has nothing in common with the query.

      callboard memory query "what happens when a worker dies?"
      callboard memory query "retry" -k 3 --where source=docs/delivery.md --json
    """
    location = MemoryLocation(target, path, chroma, url, namespace, agent, model)
    conditions = parse_fields(where or [])

    async def work() -> Any:
        async with location.opened(embeds=True) as memory:
            return await memory.query(text, k=k, score_threshold=threshold, where=conditions or None)

    results = run(work()).results
    if as_json:
        print_json([one.model_dump(mode="json") for one in results])
        return
    if not results:
        stats = shell_line("callboard", "memory", "stats", *(("--app", target) if target else ()))
        say(f"nothing was found; `{stats}` shows what is there")
    for one in results:
        metadata = one.metadata or {}
        say(f"{metadata['score']:.3f}  {_place(metadata)}")
        say(f"       {_short(one.text)}")


def stats(
    target: Target = None,
    path: Store = None,
    chroma: ServerUrl = None,
    url: Url = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Show the memories of a store. These are the agent, its namespace, the number of texts, and the model of the vectors.

    An agent finds those of the namespace that it runs in: --namespace shows these alone.

    Vectors of different models can't be compared, so a memory is always used with the model named here.

      callboard memory stats
      callboard memory stats --chroma http://127.0.0.1:8000 --json
    """
    location = MemoryLocation(target, path, chroma, url, namespace, DEFAULT_AGENT)

    async def work() -> list[MemoryStats]:
        async with location.opened() as memory:
            return await memory.all_stats()

    found = [one for one in run(work()) if namespace is None or one.namespace == namespace]
    if as_json:
        print_json([one.model_dump() for one in found])
        return
    if not found:
        say("nothing is remembered here yet; `callboard memory import` imports documents")
        return
    rows = [(one.agent or one.collection, one.namespace, one.count, one.model, one.metric) for one in found]
    say_table(("AGENT", "NAMESPACE", "MEMORIES", "MODEL", "METRIC"), rows)
    remark(f"the namespace in force is {location.namespace_in_force}")


def verify(
    target: Target = None,
    path: Store = None,
    chroma: ServerUrl = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell what is lost, and change nothing.")
    ] = False,
    model: Model = None,
    url: Url = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Look each memory up, and add those again that no search finds.

    Chroma's index may lose memories that the store has, as when a process is killed while it writes. A folder that is opened
    is looked through by itself; this tells how things stand, and is for a Chroma server.

      callboard memory verify
      callboard memory verify --app counting:app        while a worker runs its memory service
    """
    location = MemoryLocation(target, path, chroma, url, namespace, DEFAULT_AGENT, model)
    checks = run(location.verified(repair=not dry_run))
    if as_json:
        print_json([one.model_dump() for one in checks])
    else:
        rows = [(one.agent or one.collection, one.namespace, one.count, one.lost, one.left) for one in checks]
        if rows:
            say_table(("AGENT", "NAMESPACE", "MEMORIES", "LOST", "LOST NOW"), rows)
        say(_verdict(sum(one.lost for one in checks), sum(one.left for one in checks), dry_run))
    if any(one.left for one in checks):
        raise typer.Exit(1)


def _verdict(lost: int, left: int, dry_run: bool) -> str:
    if not lost:
        return "every memory is found"
    what = f"no search found {_counted(lost, 'memory', 'memories')}"
    if dry_run:
        return f"{what}: run it without --dry-run, which adds them again"
    return f"{what}; {lost - left:,} were added again"


def clear(
    target: Target = None,
    path: Store = None,
    chroma: ServerUrl = None,
    agent: Agent = DEFAULT_AGENT,
    source: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only what was imported from this document.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Delete what an agent remembers, or what came from a document.

    Asks first, unless --yes is given.

      callboard memory clear --agent writer/default
      callboard memory clear --source docs/delivery.md --yes
    """
    from callboard.memory.documents import SOURCE

    location = MemoryLocation(target, path, chroma, url, namespace, agent)
    what = f"what {agent} remembers" + (f" from {source}" if source else "")
    if not yes:
        if not sys.stdin.isatty():
            bad_use(f"this forgets {what}: add --yes")
        typer.confirm(f"Forget {what}?", abort=True)
    where = {SOURCE: source} if source else None

    async def work() -> int:
        async with location.opened() as memory:
            count = len(await memory.ids(where))
            if where is None:
                await memory.clear()
            else:
                await memory.delete(where=where)
            return count

    say(f"forgot {_counted(run(work()), 'memory', 'memories')}")


def _place(metadata: Mapping[str, Any]) -> str:
    """Where a memory comes from: the document and the number of the piece, from 1; else its id."""
    if "source" not in metadata or "number" not in metadata:
        return str(metadata.get("source", metadata["id"]))
    return f"{metadata['source']}, piece {int(metadata['number']) + 1}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"


def _counted(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


command(memory, "import", import_)
command(memory, "query", query)
command(memory, "stats", stats)
command(memory, "verify", verify)
command(memory, "clear", clear)
