"""Calls of every operator on random constants, by name: what the generic tests of the whole table go through.

`test_native` compiles each and compares with the reference, `test_gradients` checks the gradient of each.
"""

from __future__ import annotations

from tests.relay.op.cases import backward, classic, dot_product, nn, spatial, tensor, vision
from tilewright.relay.ir.expr import Call

CASES: dict[str, list[Call]] = {
    **tensor.CASES,
    **nn.CASES,
    **backward.CASES,
    **classic.CASES,
    **spatial.CASES,
    **vision.CASES,
    **dot_product.CASES,
}
