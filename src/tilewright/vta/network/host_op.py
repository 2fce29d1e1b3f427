"""The host operator of graph regions that run on the accelerator VTA, entered by `backend/vta` and by `load`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.runtime.host_ops.registry import host_op
from tilewright.vta.network.session import run_plan

#: The name of the operator in graphs and artifacts.
NAME = "external.vta"


@host_op(NAME)
def vta_program(attrs: dict[str, Any], *operands: Any) -> Any:
    """Run a plan; the last operand is the initial contents of DRAM."""
    *data, image = operands
    results = run_plan(attrs["plan"], attrs["driver"], data, np.asarray(image))
    return results[0] if len(results) == 1 else tuple(results)
