"""Categories as numbers: a declared list, or buckets of a hash when the values aren't known before.

Values are brought to the declared type first: a column read as 1, 1.0 or "1" is the same category
to a feature of type int.  Without that, a change of the reader's type would look like total drift.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from tidemill.errors import SettingsError

CategoryType = Literal["str", "int", "float", "bool"]
MAX_CODES: Final = 4096  # a histogram row of 32 kB a pane; more values need a hash

_TRUE: Final = {"true", "1", "yes"}
_FALSE: Final = {"false", "0", "no"}


def canonical(value: Any, declared: CategoryType = "str") -> str | None:
    """The one spelling of ``value`` under the declared type; None if it is missing (None, NaN).

    A value that the type can't take keeps its own spelling, and so is unseen and not lost.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, np.generic):
        return canonical(value.item(), declared)
    text = str(value).strip()
    if declared == "bool":
        return _bool_text(text)
    if declared == "str":
        return _plain(value, text)
    try:
        number = float(text)
    except ValueError:
        return text
    if math.isnan(number):
        return None
    if declared == "float":
        return repr(number)
    return str(_whole(text, number)) if number.is_integer() else text


def _plain(value: Any, text: str) -> str:
    # a column of whole numbers with a gap is read as floats; 1.0 is still the category 1
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return text


def _bool_text(text: str) -> str:
    low = text.lower().removesuffix(".0")
    if low in _TRUE:
        return "true"
    return "false" if low in _FALSE else text


def _whole(text: str, number: float) -> int:
    try:
        return int(text)  # exact above 2**53
    except ValueError:
        return int(number)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Codes of a categorical feature: 0 .. size-1, ``size`` for a value that was never declared.

    With ``values`` a declared list; else ``buckets`` of a hash, in which two values may share one.
    """

    values: tuple[str, ...] = ()
    buckets: int = 0
    declared: CategoryType = "str"

    def __post_init__(self) -> None:
        if bool(self.values) == bool(self.buckets):
            raise SettingsError("a vocabulary has either values or a number of buckets")
        if not 0 < self.size <= MAX_CODES:
            raise SettingsError(
                f"a vocabulary of {self.size} is not within 1..{MAX_CODES}: hash it into buckets"
            )
        if len({canonical(value, self.declared) for value in self.values}) != len(self.values):
            raise SettingsError(f"the vocabulary {self.values[:5]!r}... names a value twice")

    @property
    def size(self) -> int:
        """Number of codes for known values."""
        return len(self.values) or self.buckets

    @property
    def hashed(self) -> bool:
        """Whether codes are buckets."""
        return self.buckets > 0

    def codes(self, values: Iterable[Any]) -> NDArray[np.float32]:
        """Codes as a column of the feature block: float32 [n], NaN where missing."""
        known = {str(canonical(v, self.declared)): float(i) for i, v in enumerate(self.values)}
        found = []
        for value in values:
            text = canonical(value, self.declared)
            if text is None:
                found.append(math.nan)
                continue
            if text not in known:
                known[text] = float(self._bucket(text) if self.hashed else self.size)
            found.append(known[text])
        return np.array(found, np.float32)

    def name_of(self, code: int) -> str:
        """What a person is shown for ``code``."""
        if code >= self.size:
            return "unseen"
        return f"bucket {code}" if self.hashed else self.values[code]

    def _bucket(self, text: str) -> int:
        # Python's own hash differs between processes
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little") % self.buckets
