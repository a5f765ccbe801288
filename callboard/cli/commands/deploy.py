"""`callboard deploy`: the functions of this version on a server whose workers may not load them."""

from __future__ import annotations

from callboard.cli.options import AsJson, Url
from callboard.cli.output import print_json, say
from callboard.cli.sessions import on_server, run


def deploy(url: Url = None, as_json: AsJson = False) -> None:
    """Load the functions of this version, where workers may not.

    They are of all namespaces of a server. It is needed where workers log in as users of `callboard acl worker`: once
    before the first process of each version starts, and after FUNCTION FLUSH or on an empty server. What other versions
    run stays. Functions that were put in the place of this version's are replaced.

      callboard deploy --url redis://callboard-deploy:PASSWORD@10.0.0.5:6379

    Exit codes: 0 they are there, 1 the user may not load them, or there is no room, 2 wrong use, 3 no server.
    """
    from callboard.broker.redis.library import library
    from callboard.broker.redis.operations import namespaces

    async def work() -> namespaces.Deployed:
        async with on_server(None, url, None) as transport:
            return await namespaces.deploy(transport)

    done = run(work())
    if as_json:
        print_json({"library": library().name, "done": str(done)})
    else:
        say(f"{done:<8} {library().name}")
