"""`callboard topics`: the topics of a namespace, and how far each subscriber has got."""

from __future__ import annotations

from callboard.cli.options import AsJson, Namespace, OptionalTarget, Url
from callboard.cli.output import print_json, say, say_table
from callboard.cli.sessions import overview_of, run


def topics(
    target: OptionalTarget = None, url: Url = None, namespace: Namespace = None, as_json: AsJson = False
) -> None:
    """Show topics, their subscribers, and how far each has got.

    LENGTH includes handled messages that are kept. UNREAD and PENDING (given to a worker and not
    finished) are those of the subscriber.

      callboard topics counting:app
      callboard topics --namespace counting --json
    """
    view = run(overview_of(target, url, namespace))
    if as_json:
        print_json(view.topics)
        return
    if not view.topics:
        say(f"namespace {view.namespace} has no topics yet")
        return
    rows: list[tuple[object, ...]] = []
    for topic in view.topics:
        names = sorted({*topic.subscribers, *(group.type for group in topic.groups)}) or [""]
        groups = {group.type: group for group in topic.groups}
        for number, name in enumerate(names):
            group = groups.get(name)
            first = (topic.type, topic.length) if number == 0 else ("", None)
            rows.append(
                (*first, name, group and group.unread, group and group.pending, topic.last_id or None)
            )
    say_table(("TOPIC", "LENGTH", "SUBSCRIBER", "UNREAD", "PENDING", "LAST"), rows)
