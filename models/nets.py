"""Small nets for dispatch: everything from the raw float32 block to the answer in its unit.

Decides: the shape of the net. Scaling, codes of categories and the unit of the answer are inside,
so the worker gives it rows as they come, and training and serving can't scale differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

CLIP_SIGMA = 6.0  # a number further out tells no more, but would dominate


class DispatchNet(nn.Module):
    """Standardised numbers + an embedding per category -> MLP -> `centre + spread x output`."""

    def __init__(
        self,
        means: Sequence[float],
        deviations: Sequence[float],
        categories: Sequence[int],
        cardinalities: Sequence[int],
        hidden: Sequence[int],
        outputs: int,
        centre: float,
        spread: float,
    ) -> None:
        """`means` and `deviations` have an entry per column of the block; a category's are not used.

        `categories` are columns of the block, `cardinalities` their numbers of codes.
        """
        super().__init__()
        self.scale: Tensor
        self.shift: Tensor
        self.centre: Tensor
        self.spread: Tensor
        # One multiply-add for the whole row; codes of categories become 0 in it.
        scale = 1 / torch.tensor(deviations, dtype=torch.float64)
        scale[list(categories)] = 0
        shift = -torch.tensor(means, dtype=torch.float64) * scale
        self.register_buffer("scale", scale.float())
        self.register_buffer("shift", shift.float())
        self.register_buffer("centre", torch.tensor(centre, dtype=torch.float32))
        self.register_buffer("spread", torch.tensor(spread, dtype=torch.float32))
        self._categories = tuple(zip(categories, cardinalities, strict=True))
        widths = [embedding_width(n) for n in cardinalities]
        self.embeddings = nn.ModuleList(
            nn.Embedding(n, width) for n, width in zip(cardinalities, widths, strict=True)
        )
        sizes = [len(means) + sum(widths), *hidden]
        layers: list[nn.Module] = []
        for size, next_size in pairwise(sizes):
            layers += [nn.Linear(size, next_size), nn.ReLU()]
        self.body = nn.Sequential(*layers, nn.Linear(sizes[-1], outputs))

    def forward(self, block: Tensor) -> Tensor:
        """float32 [n, features] -> float32 [n, outputs]."""
        scaled = torch.addcmul(self.shift, block, self.scale)
        parts = [scaled.clamp(-CLIP_SIGMA, CLIP_SIGMA)]
        for (column, size), embedding in zip(self._categories, self.embeddings, strict=True):
            # Clamped: a code outside the table would end the process on a GPU, not just the row.
            parts.append(embedding(block[:, column].long().clamp(0, size - 1)))
        scores: Tensor = self.body(torch.cat(parts, dim=1))
        return torch.addcmul(self.centre, scores, self.spread)


def embedding_width(cardinality: int) -> int:
    """Width that is enough for so many codes."""
    return min(8, 1 + cardinality // 4)
