"""A torch model behind the engine: a torch.export package, or the eager module if that fails.

Decides: how torch is set up and called. Must not know: frames, sockets, golden vectors.
"""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx.graph import CodeGen

from models.engine import DevicePoisonedError
from models.load import load_function
from models.merge import Block
from models.spec import ModelSpec

log = logging.getLogger(__name__)

_ASSERTS = (
    torch.ops.aten._assert_tensor_metadata.default,
    torch.ops.aten._assert_scalar.default,
)
# After one of these every later call in the process fails too.
_POISON = (
    "device-side assert",
    "illegal memory access",
    "misaligned address",
    "unspecified launch",
)


class TorchModel:
    """Runs `module` without gradients on one device; the answer is copied back to the CPU."""

    def __init__(self, module: Any, device: str) -> None:
        self._module = module
        self._device = torch.device(device)
        self._on_cpu = self._device.type == "cpu"

    def run(self, block: Block) -> Block:
        """Outputs [n, k]. Raises DevicePoisonedError if the device can't be used any more."""
        with torch.inference_mode():
            inputs = torch.from_numpy(block)
            if self._on_cpu:
                outputs: Block = self._module(inputs).numpy()
                return outputs
            return self._run_on_device(inputs)

    def _run_on_device(self, inputs: torch.Tensor) -> Block:
        try:
            outputs: Block = self._module(inputs.to(self._device)).cpu().numpy()
        except RuntimeError as error:
            if any(mark in str(error) for mark in _POISON):
                raise DevicePoisonedError(str(error).splitlines()[0]) from error
            raise
        return outputs


def load_torch_model(folder: Path, spec: ModelSpec, device: str, threads: int) -> TorchModel:
    """Load the package, else the eager module. Raises OSError, RuntimeError, ValueError."""
    torch.set_num_threads(threads)
    # Torch allows this once in a process; a second model finds it done.
    with contextlib.suppress(RuntimeError):
        torch.set_num_interop_threads(1)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        module = _load_package(folder, spec, device)
    except Exception as error:
        if "eager" not in spec.files:
            raise
        log.warning("torch.export package can't be used, serving the eager module: %s", error)
        module = _load_eager(folder, spec, device)
    return TorchModel(module, device)


def _load_package(folder: Path, spec: ModelSpec, device: str) -> Any:
    program = torch.export.load(folder / spec.files["package"])
    if device != "cpu":
        # Imported here: it pulls in the compiler, which a worker on the CPU can do without.
        from torch.export.passes import move_to_device_pass

        program = move_to_device_pass(program, device)
    return lean(program)


def lean(program: torch.export.ExportedProgram) -> Any:
    """The program as a callable on one tensor that returns one, without checks of its own.

    What `module()` checks at each call (guards, structure and constraints of the inputs) the engine
    knows already, and it doubles the time of a small net (164 us against 86). The golden vectors
    are checked on what is returned here. Raises ValueError if the program returns several tensors.
    """
    module = program.module(check_guards=False)
    graph = module.graph
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target in _ASSERTS:
            graph.erase_node(node)
    outputs = graph.output_node().args[0]
    if not isinstance(outputs, tuple | list) or len(outputs) != 1:
        raise ValueError("the exported program must return one tensor [rows, outputs]")
    graph.output_node().args = (outputs[0],)
    graph.set_codegen(CodeGen())
    return GraphModule(module, graph)


def _load_eager(folder: Path, spec: ModelSpec, device: str) -> Any:
    saved = torch.load(folder / spec.files["eager"], weights_only=True)
    module = load_function(saved["factory"], folder)(**saved["arguments"])
    module.load_state_dict(saved["state"])
    return module.eval().to(device)
