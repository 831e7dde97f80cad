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
        numbers: Sequence[int],
        means: Sequence[float],
        deviations: Sequence[float],
        categories: Sequence[int],
        cardinalities: Sequence[int],
        hidden: Sequence[int],
        outputs: int,
        centre: float,
        spread: float,
    ) -> None:
        """`numbers` and `categories` are columns of the block; `cardinalities` belongs to the latter."""
        super().__init__()
        self.number_columns: Tensor
        self.means: Tensor
        self.deviations: Tensor
        self.centre: Tensor
        self.spread: Tensor
        self._cardinalities = tuple(cardinalities)
        self._category_columns = tuple(categories)
        self.register_buffer("number_columns", torch.tensor(numbers, dtype=torch.long))
        self.register_buffer("means", torch.tensor(means, dtype=torch.float32))
        self.register_buffer("deviations", torch.tensor(deviations, dtype=torch.float32))
        self.register_buffer("centre", torch.tensor(centre, dtype=torch.float32))
        self.register_buffer("spread", torch.tensor(spread, dtype=torch.float32))
        widths = [embedding_width(n) for n in cardinalities]
        self.embeddings = nn.ModuleList(
            nn.Embedding(n, width) for n, width in zip(cardinalities, widths, strict=True)
        )
        sizes = [len(numbers) + sum(widths), *hidden]
        layers: list[nn.Module] = []
        for size, next_size in pairwise(sizes):
            layers += [nn.Linear(size, next_size), nn.ReLU()]
        self.body = nn.Sequential(*layers, nn.Linear(sizes[-1], outputs))

    def forward(self, block: Tensor) -> Tensor:
        """float32 [n, features] -> float32 [n, outputs]."""
        numbers = block[:, self.number_columns]
        scaled = ((numbers - self.means) / self.deviations).clamp(-CLIP_SIGMA, CLIP_SIGMA)
        parts = [scaled]
        for column, size, embedding in zip(
            self._category_columns, self._cardinalities, self.embeddings, strict=True
        ):
            # Clamped: a code outside the table would end the process on a GPU, not just the row.
            parts.append(embedding(block[:, column].long().clamp(0, size - 1)))
        scores: Tensor = self.body(torch.cat(parts, dim=1))
        return self.centre + self.spread * scores


def embedding_width(cardinality: int) -> int:
    """Width that is enough for so many codes."""
    return min(8, 1 + cardinality // 4)
