"""Train a dispatch net on recorded events: earlier days to learn, later days to judge.

Decides: the training run and the comparison. The score is the mean absolute error, so the constant
to beat is the median. Must not know: one data set, how rules are evaluated (it is handed in).
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from models.dataset import Dataset, Event, split_by_time
from models.export import Recipe, export_model
from models.fit_rules import Labels, fit_rules
from models.merge import Block
from models.nets import DispatchNet
from models.spec import FLOAT32_MAX, FeatureSpec, ModelSpec

log = logging.getLogger(__name__)

MIN_CATEGORY_ROWS = 50

# (rules, features, output names) -> a function on a block; operators.rules gives it.
RuleScorer = Callable[
    [Mapping[str, Any], Sequence[FeatureSpec], Sequence[str]], Callable[[Block], Block]
]


@dataclass(frozen=True, slots=True)
class TrainPolicy:
    """How to train. One thread, so that sums have one order and a seed gives one model."""

    train_share: float = 0.75
    check_share: float = 0.1
    hidden: tuple[int, ...] = (64, 32)
    epochs: int = 20
    batch_rows: int = 512
    rate: float = 2e-3
    decay: float = 1e-3
    patience: int = 4
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Scores:
    """Mean absolute errors on later time, in the output's unit."""

    model: float
    rules: float
    constant: float
    train_rows: int
    test_rows: int

    @property
    def wins(self) -> bool:
        """True if the model beats both."""
        return self.model < min(self.rules, self.constant)


@dataclass(frozen=True, slots=True)
class _Data:
    train: Block
    train_labels: Labels
    check: Block
    check_labels: Labels
    test: Block
    test_labels: Labels


def train(
    dataset: Dataset,
    data: Path,
    out: Path,
    seed: int,
    rule_scorer: RuleScorer,
    policy: TrainPolicy | None = None,
) -> tuple[ModelSpec, Scores]:
    """Train, compare, write the model's folder. Raises DataError if the data can't be read."""
    policy = policy or TrainPolicy()
    events = dataset.load(data)
    earlier, later = split_by_time(events, policy.train_share)
    features = tuple(_with_categories(feature, earlier) for feature in dataset.features)
    sets = _split(features, earlier, later, policy)
    module, recipe = _fit(features, sets, seed, policy)
    whole, labels = _matrix(features, earlier)
    names = [feature.name for feature in features]
    rules = fit_rules(whole, labels, names, dataset.rule_features, dataset.output.name)
    scorer = rule_scorer(rules, features, [dataset.output.name])
    scores = Scores(
        model=_mae(_predict(module, sets.test), sets.test_labels),
        rules=_mae(scorer(sets.test)[:, 0], sets.test_labels),
        constant=_mae(np.median(labels), sets.test_labels),
        train_rows=len(labels),
        test_rows=len(sets.test_labels),
    )
    spec = ModelSpec(
        name=dataset.name,
        version=_version(module),
        features=features,
        outputs=(dataset.output,),
        seed=seed,
        data_hash=dataset.data_hash(data),
        trained={"metric": "mean absolute error on later time", **asdict(scores)},
    )
    return export_model(module, spec, recipe, whole, out, rules), scores


def _with_categories(feature: FeatureSpec, events: Sequence[Event]) -> FeatureSpec:
    if feature.dtype != "category":
        return feature
    counts: dict[str, int] = {}
    for event in events:
        value = str(event.features[feature.name])
        counts[value] = counts.get(value, 0) + 1
    common = sorted(value for value, count in counts.items() if count >= MIN_CATEGORY_ROWS)
    return replace(feature, categories=tuple(common))


def _matrix(features: Sequence[FeatureSpec], events: Sequence[Event]) -> tuple[Block, Labels]:
    """Events as the block that the schema packs from their JSON: defaults, codes, limits."""
    columns = [_column(feature, events) for feature in features]
    labels = np.array([event.label for event in events], np.float64)
    return np.stack(columns, axis=1), labels


def _column(feature: FeatureSpec, events: Sequence[Event]) -> Block:
    missing = feature.missing_value
    fallback = float("nan") if missing is None else missing
    codes = {name: float(code) for code, name in enumerate(feature.categories)}
    values = []
    for event in events:
        value = event.features[feature.name]
        if value is None:
            values.append(fallback)
        else:
            values.append(codes.get(value, fallback) if isinstance(value, str) else value)
    low = -FLOAT32_MAX if feature.low is None else feature.low
    high = FLOAT32_MAX if feature.high is None else feature.high
    return np.array(values, np.float32).clip(low, high)


def _split(
    features: Sequence[FeatureSpec],
    earlier: Sequence[Event],
    later: Sequence[Event],
    policy: TrainPolicy,
) -> _Data:
    learn, check = split_by_time(earlier, 1 - policy.check_share)
    return _Data(*_matrix(features, learn), *_matrix(features, check), *_matrix(features, later))


def _fit(
    features: Sequence[FeatureSpec], sets: _Data, seed: int, policy: TrainPolicy
) -> tuple[nn.Module, Recipe]:
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(policy.threads)
    arguments = _net_arguments(features, sets, policy)
    module = DispatchNet(**arguments)
    best = _descend(module, sets, seed, policy)
    module.load_state_dict(best)
    return module.eval(), Recipe("models.nets:DispatchNet", arguments)


def _net_arguments(
    features: Sequence[FeatureSpec], sets: _Data, policy: TrainPolicy
) -> dict[str, Any]:
    categories = [i for i, feature in enumerate(features) if feature.dtype == "category"]
    return {
        "means": [float(mean) for mean in sets.train.mean(axis=0, dtype=np.float64)],
        "deviations": [max(1e-6, float(d)) for d in sets.train.std(axis=0, dtype=np.float64)],
        "categories": categories,
        "cardinalities": [features[i].cardinality for i in categories],
        "hidden": list(policy.hidden),
        "outputs": 1,
        "centre": float(np.median(sets.train_labels)),
        "spread": float(np.abs(sets.train_labels - np.median(sets.train_labels)).mean()),
    }


def _descend(
    module: DispatchNet, sets: _Data, seed: int, policy: TrainPolicy
) -> dict[str, torch.Tensor]:
    """The weights that did best on the latest part of the earlier time."""
    inputs = torch.from_numpy(sets.train)
    targets = torch.from_numpy(sets.train_labels.astype(np.float32)).unsqueeze(1)
    order = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW(module.parameters(), policy.rate, weight_decay=policy.decay)
    steps = policy.epochs * -(-len(inputs) // policy.batch_rows)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, policy.rate * 2, steps)
    best, best_error, since = _weights(module), float("inf"), 0
    for epoch in range(policy.epochs):
        module.train()
        shuffled = torch.randperm(len(inputs), generator=order)
        for start in range(0, len(inputs), policy.batch_rows):
            rows = shuffled[start : start + policy.batch_rows]
            optimiser.zero_grad()
            loss = nn.functional.l1_loss(module(inputs[rows]), targets[rows])
            torch.autograd.backward(loss / module.spread)
            optimiser.step()
            schedule.step()
        error = _mae(_predict(module, sets.check), sets.check_labels)
        log.info("epoch %d: mean absolute error %.4f", epoch + 1, error)
        if error < best_error:
            best, best_error, since = _weights(module), error, 0
        elif (since := since + 1) >= policy.patience:
            break
    return best


def _weights(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


def _predict(module: nn.Module, block: Block) -> Labels:
    module.eval()
    with torch.inference_mode():
        outputs = module(torch.from_numpy(block))[:, 0].numpy()
    return np.asarray(outputs, np.float64)


def _mae(predicted: Any, labels: Labels) -> float:
    return float(np.abs(predicted - labels).mean())


def _version(module: nn.Module) -> str:
    """Same weights, same version."""
    digest = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        digest.update(name.encode() + value.numpy().tobytes())
    return digest.hexdigest()[:12]
