"""`tidemill train`: train a dispatch model on recorded data, and show what it is worth."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.common import JsonOption, print_json

if TYPE_CHECKING:
    from models.merge import Block
    from models.spec import FeatureSpec

DATA_SETS = ("flights", "sendy")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("train")(train)


def train(
    name: Annotated[str, typer.Argument(help=f"Data set: {' or '.join(DATA_SETS)}.")],
    out: Annotated[Path, typer.Option(help="Folder of the model.")] = Path("run/model"),
    data: Annotated[
        Path | None, typer.Option(help="Folder of the data. Default: data/ or ../shared/data.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Same seed and data, same model.")] = 1,
    json_: JsonOption = False,
) -> None:
    """Train on the earlier part of the data, judge on the later, write the model's folder."""
    # Imported here: torch takes seconds, and other commands list this one without it.
    from models.catalogue import DATASETS, default_data
    from models.train import train as run
    from tidemill.errors import SettingsError

    if name not in DATASETS:
        raise SettingsError(f"no data set {name!r}: there are {', '.join(DATA_SETS)}")
    dataset = DATASETS[name]
    started_s = time.monotonic()
    spec, scores = run(dataset, data or default_data(dataset), out, seed, _rule_scorer)
    took_s = time.monotonic() - started_s
    unit = dataset.output.unit
    if json_:
        print_json({"model": spec.name, "version": spec.version, "out": str(out), **spec.trained})
    else:
        typer.echo(
            f"{spec.name} {spec.version} in {out} ({took_s:.0f} s, seed {seed},"
            f" data {spec.data_hash[:12]})\n"
            f"trained on {scores.train_rows} events, judged on {scores.test_rows} later ones;"
            f" mean absolute error:\n"
            f"  model     {scores.model:10.3f} {unit}\n"
            f"  rules     {scores.rules:10.3f} {unit}\n"
            f"  constant  {scores.constant:10.3f} {unit} (the median)"
        )
    if not scores.wins:
        typer.echo("error: the model is no better than rules or constant", err=True)
        raise typer.Exit(1)


def _rule_scorer(
    rules: Mapping[str, Any], features: Sequence[FeatureSpec], outputs: Sequence[str]
) -> Callable[[Block], Block]:
    from operators.rules import RuleEngine

    return RuleEngine.from_dict(rules, features, outputs).score
