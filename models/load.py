"""Load the model of a folder, whatever its kind. torch is imported only for a torch model.

Decides: which kind of model a folder holds. Must not know: sockets, batches.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from models.engine import BatchModel
from models.merge import Block
from models.spec import ModelSpec


class ModelLoadError(RuntimeError):
    """The model of a folder can't be loaded: retrying won't help."""


@dataclass(frozen=True, slots=True)
class CallableModel:
    """Any Python callable on a float32 block [n, features] that returns [n, outputs]."""

    function: Callable[[Block], Any]

    def run(self, block: Block) -> Any:
        """Call it; the engine checks what comes back."""
        return self.function(block)


def load_model(folder: Path, spec: ModelSpec, device: str = "cpu", threads: int = 1) -> BatchModel:
    """A model that is ready to be warmed up. Raises ModelLoadError."""
    if spec.kind == "callable":
        return CallableModel(load_function(spec.function, folder))
    # Imported here: a worker of a callable model must not pay for torch (300 MB, 2 s).
    from models.torch_model import load_torch_model

    try:
        return load_torch_model(folder, spec, device, threads)
    except Exception as error:
        raise ModelLoadError(f"model {spec.name} in {folder}: {error}") from error


def load_function(path: str, folder: Path | None = None) -> Callable[..., Any]:
    """Import "package.module:name"; the folder of the model is searched too. Raises ModelLoadError."""
    module_name, colon, name = path.partition(":")
    if not colon or not name or not module_name:
        raise ModelLoadError(f'{path!r}: write "package.module:function"')
    if folder is not None and str(folder) not in sys.path:
        sys.path.append(str(folder))
    try:
        function = getattr(import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise ModelLoadError(f"{path!r} can't be imported: {error}") from error
    if not callable(function):
        raise ModelLoadError(f"{path!r} is a {type(function).__name__}, not callable")
    loaded: Callable[..., Any] = function
    return loaded
