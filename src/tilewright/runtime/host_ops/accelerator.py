"""Regions of a graph that run on the accelerator VTA."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilewright
from tilewright.runtime.host_ops.registry import host_op


@host_op("external.vta")
def vta_program(attrs: dict[str, Any], *operands: Any) -> Any:
    """Run a plan; the last operand is what DRAM holds at its start.

    The accelerator stands above this module, as its simulators are compiled: it is found by its public name.
    """
    *data, image = operands
    results = tilewright.vta.run_plan(attrs["plan"], attrs["driver"], data, np.asarray(image))
    return results[0] if len(results) == 1 else tuple(results)
