"""`tidemill dlq`: list and show dead letters, and replay them after a fix."""

from __future__ import annotations

import time
from typing import Annotated, cast

import typer

from cli.common import ConfigOption, JsonOption, print_json, settings_of
from cli.kafka_tail import TopicRecord, TopicTail
from operators.letter_replay import Replay, replay_of
from tidemill.contracts import DLQ_PREFIX, DeadLetterReason
from tidemill.errors import InvalidEvent, NotDelivered
from tidemill.settings import Settings

_FLUSH_S = 30.0
ReasonOption = Annotated[
    DeadLetterReason | None,
    typer.Option("--reason", metavar="REASON", help="Only letters with this reason."),
]
LimitOption = Annotated[int, typer.Option("--limit", min=1, help="Look at the newest so many.")]


def register(app: typer.Typer) -> None:
    """Add the group of commands."""
    group = typer.Typer(no_args_is_help=True, help="List, show and replay dead letters.")
    group.command("list")(list_)
    group.command("show")(show)
    group.command("replay")(replay)
    app.add_typer(group, name="dlq")


def list_(
    reason: ReasonOption = None,
    limit: LimitOption = 50,
    config: ConfigOption = None,
    json_: JsonOption = False,
) -> None:
    """Show the newest dead letters; with --json one object a line."""
    for record in _selected(settings_of(config), [], reason, limit):
        letter = record.shown(DLQ_PREFIX)
        if json_:
            print_json(letter)
            continue
        source = f"{letter.get('topic')}[{letter.get('partition')}]@{letter.get('offset')}"
        typer.echo(
            f"{record.place:>10}  {letter.get('reason', '?'):18}  {source}  {letter.get('message')}"
        )


def show(
    place: Annotated[str, typer.Argument(help="PARTITION:OFFSET, as listed.")],
    config: ConfigOption = None,
    json_: JsonOption = False,
) -> None:
    """Show one dead letter in full."""
    (record,) = _selected(settings_of(config), [place], None, 1)
    letter = record.shown(DLQ_PREFIX)
    if json_:
        print_json(letter)
        return
    for name, value in letter.items():
        typer.echo(f"{name:12} {value}")


def replay(
    places: Annotated[
        list[str] | None, typer.Argument(help="PARTITION:OFFSET of each letter, as listed.")
    ] = None,
    reason: ReasonOption = None,
    every: Annotated[bool, typer.Option("--all", help="All letters within --limit.")] = False,
    limit: LimitOption = 1000,
    now: Annotated[
        bool, typer.Option("--now", help="Give them the time of now, so that they are not late.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Send nothing.")] = False,
    config: ConfigOption = None,
    json_: JsonOption = False,
) -> None:
    """Send letters to their source topic again, as a newer attempt of the same task.

    Replaying the same letter twice makes no second answer: both are the same attempt.
    """
    if not (places or reason or every):
        raise InvalidEvent("name the letters to replay: PARTITION:OFFSET, --reason or --all")
    settings = settings_of(config)
    now_ms = int(time.time() * 1000)
    ready, refused = [], []
    for record in _selected(settings, places or [], reason, limit):
        try:
            ready.append((record, replay_of(record.headers, now_ms)))
        except InvalidEvent as error:
            refused.append({"place": record.place, "why": str(error)})
    if not dry_run:
        _send(settings, ready, now_ms if now else None)
    bound_ms = now_ms - settings.job.out_of_orderness_ms
    old = 0 if now else sum(r.timestamp_ms < bound_ms for _, r in ready)
    report = {"replayed": 0 if dry_run else len(ready), "ready": len(ready), "refused": refused}
    if json_:
        print_json(report | {"probably_late": old})
    else:
        _show_report(len(ready), refused, old, dry_run=dry_run)
    if refused:
        raise typer.Exit(1)


def _show_report(ready: int, refused: list[dict[str, str]], old: int, *, dry_run: bool) -> None:
    typer.echo(f"{'would replay' if dry_run else 'replayed'} {ready} dead letters")
    for entry in refused:
        typer.echo(f"refused {entry['place']}: {entry['why']}", err=True)
    if old:
        typer.echo(
            f"{old} of them have event times that are behind the watermark by now and will be "
            "answered `late`: use --now to give them new ones",
            err=True,
        )


def _selected(
    settings: Settings, places: list[str], reason: DeadLetterReason | None, limit: int
) -> list[TopicRecord]:
    tail = TopicTail(settings, settings.dlq_topic)
    try:
        records = [tail.one(place) for place in places] if places else tail.newest(limit)
    finally:
        tail.close()
    wanted = None if reason is None else reason.value
    return [r for r in records if wanted in (None, r.header(f"{DLQ_PREFIX}reason"))]


def _send(
    settings: Settings, letters: list[tuple[TopicRecord, Replay]], restamp_ms: int | None
) -> None:
    """Produce all and wait for their delivery; raises NotDelivered if one was not confirmed."""
    from confluent_kafka import KafkaError, Message, Producer

    failed: list[str] = []

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error.str())

    producer = Producer(settings.kafka.producer_config())
    for record, again in letters:
        producer.produce(
            again.topic,
            key=record.key,
            value=record.value,
            headers=cast("list[tuple[str, str | bytes | None]]", again.headers),
            timestamp=again.timestamp_ms if restamp_ms is None else restamp_ms,
            on_delivery=on_delivery,
        )
        producer.poll(0)
    left = producer.flush(_FLUSH_S)
    if failed or left:
        why = failed[0] if failed else f"no confirmation within {_FLUSH_S:.0f} s"
        raise NotDelivered(
            f"{len(failed) + left} of {len(letters)} letters were not confirmed ({why}): "
            "replay again, it is safe"
        )
