"""`vta.build`, `vta.lower` and `vta.build_config`: schedules for the accelerator as modules that its simulators run."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from tilewright import te
from tilewright.compat.driver import build as host
from tilewright.compat.ir.module import IRModule
from tilewright.compat.ir.pass_config import PassContext
from tilewright.compat.runtime.compiled_module import CompiledModule
from tilewright.compat.vta.environment import get_env
from tilewright.errors import UnsupportedError


def build_config(debug_flag: int = 0, config: Mapping[str, Any] | None = None, **kwargs: Any) -> PassContext:
    """A context to build in. Which passes run follows from the target alone, and `debug_flag` shows nothing."""
    return PassContext(config=config, **kwargs)


def lower(
    inp: Any, args: Any = None, name: str = "main", binds: Mapping[Any, Any] | None = None, simple_mode: bool = False
) -> IRModule:
    """The function of a schedule with the units' calls and the tokens between them."""
    if isinstance(inp, te.Schedule):
        return host.lower_for_vta(inp, args, name, binds)
    return host.lower(inp, args, name, binds, simple_mode)


@functools.wraps(host.build, assigned=("__module__", "__name__", "__qualname__"))
def build(inputs: Any, args: Any = None, target: Any = None, *more: Any, **options: Any) -> CompiledModule:
    """A schedule, or what `lower` made of one, for the accelerator; for another target what `tvm.build` makes.

    Without `target` it is the environment's.
    """
    return host.build(inputs, args, get_env().target if target is None else target, *more, **options)


def module_loader(bitstream: Any = None) -> Any:
    """A function that prepares a device before measurements: it does nothing, as simulators need no bitstream."""
    if bitstream is not None:
        raise UnsupportedError("module_loader(bitstream=…): programs run on simulators, which take no bitstream")
    return lambda *args, **kwargs: None
