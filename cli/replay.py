"""`tidemill replay`: send recorded events again, with their event times."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.common import ConfigOption, JsonOption, print_json, settings_of

if TYPE_CHECKING:
    from jobs.replay import Recorded, ReplayCount
    from tidemill.settings import Settings


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("replay")(replay)


def replay(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="Events, .jsonl or .jsonl.gz, or a data set: flights, sendy."
        ),
    ],
    speed: Annotated[
        float, typer.Option(min=0, help="Times as fast as they happened; 0: as fast as possible.")
    ] = 1.0,
    rate: Annotated[
        float, typer.Option(min=0, help="Events a second, evenly, instead of --speed.")
    ] = 0.0,
    limit: Annotated[int, typer.Option(min=0, help="Send so many at most; 0: all.")] = 0,
    skip: Annotated[int, typer.Option(min=0, help="Leave out so many at the start.")] = 0,
    now: Annotated[
        bool, typer.Option("--now", help="Shift all event times so that the first is now.")
    ] = False,
    topic: Annotated[str, typer.Option(help="Topic (topics.orders).")] = "",
    data: Annotated[Path | None, typer.Option(help="Folder of the data sets.")] = None,
    config: ConfigOption = None,
    json_: JsonOption = False,
) -> None:
    """Send recorded events to Kafka; their event times become the records' timestamps."""
    from confluent_kafka import Producer

    from jobs.replay import Pace, Replayer, read_events, shifted

    settings = settings_of(config)
    topic = topic or settings.topics.orders
    events: Iterator[Recorded] = read_events(source, data)
    events = islice(events, skip, skip + limit if limit else None)
    first = next(events, None)
    if first is None:
        raise typer.BadParameter(f"{source} holds no event after the first {skip}")
    events = _chained(first, events)
    now_ms = time.time_ns() // 1_000_000
    if now:
        events = shifted(events, now_ms)
        if rate or speed != 1.0:
            typer.secho(_pace_warning(settings), fg=typer.colors.YELLOW, err=True)
    elif warning := _warning(settings, topic, first.time_ms, now_ms):
        typer.secho(f"warning: {warning}", fg=typer.colors.YELLOW, err=True)
    replayer = Replayer(Producer(settings.kafka.producer_config()), topic, Pace(speed, rate))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: replayer.stop())
    count = replayer.run(events, None if json_ else _show)
    if json_:
        print_json({"sent": count.sent, "first_ms": count.first_ms, "last_ms": count.last_ms})
    else:
        typer.echo(f"sent {count.sent} events to {topic}, all confirmed")


def _chained(first: Recorded, rest: Iterator[Recorded]) -> Iterator[Recorded]:
    yield first
    yield from rest


def _show(count: ReplayCount) -> None:
    at = time.strftime("%Y-%m-%d %H:%M", time.gmtime(count.last_ms / 1000))
    typer.echo(f"sent {count.sent}, event time {at} UTC", err=True)


def _pace_warning(settings: Settings) -> str:
    return (
        "warning: --now keeps the distances of the events, so at another pace than --speed 1 their"
        f" times leave the clock: over {settings.job.future_limit_ms} ms ahead"
        " (job.future_limit_ms) they become dead letters"
    )


def _warning(settings: Settings, topic: str, oldest_ms: int, now_ms: int) -> str | None:
    """None too if the topic's retention can't be read: sending will tell what is wrong."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin._config import ConfigResource
    from confluent_kafka.admin._resource import ResourceType

    from deploy.kafka_admin import admin_client
    from jobs.replay import retention_warning

    resource = ConfigResource(ResourceType.TOPIC, topic)
    try:
        admin = admin_client(settings.kafka.client_config())
        entries = admin.describe_configs([resource])[resource].result(timeout=5)
        return retention_warning(int(entries["retention.ms"].value), oldest_ms, now_ms, topic)
    except (KafkaException, TimeoutError, KeyError):
        return None
