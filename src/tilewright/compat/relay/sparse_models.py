"""`tvm.relay.data_dep_optimization`: dense layers of mostly zeros made products with sparse weights, by the parameters.

func, params = simplify_fc_transpose(mod["main"], params)        # weights stored as layers read them
func, params = bsr_dense(func, params, (16, 1), 0.8)             # w becomes w.data, w.indices, w.indptr
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.compat.ir.module import IRModule
from tilewright.compat.runtime import array as arrays
from tilewright.errors import EnvironmentError_, InputError
from tilewright.relay.ir.expr import Call, Expr, Function, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.visitor import calls, free_vars, rewrite
from tilewright.relay.op.nn import dense, sparse_dense
from tilewright.relay.transform.layout.dense_to_sparse import sparse_blocks
from tilewright.relay.transform.simplify.make import is_call

Params = Mapping[str, Any]


def bsr_dense(
    func: Function, params: Params, blocksize: tuple[int, int], sparsity_threshold: float
) -> tuple[Function, dict[str, Any]]:
    """`nn.dense` by a parameter of which more than `sparsity_threshold` (0 … 1) of the blocks (rows, columns) are zero
    takes the others alone; the function and its parameters."""
    found = dict(params)
    made: dict[str, list[Expr]] = {}
    for name in _weights(func):
        parts = None if name not in found else sparse_blocks(found[name].numpy(), *blocksize, sparsity_threshold)
        if parts is not None:
            named = dict(zip((f"{name}.data", f"{name}.indices", f"{name}.indptr"), parts, strict=True))
            made[name] = [Var(key, TensorType(part.shape, str(part.dtype))) for key, part in named.items()]
            found |= {key: arrays.array(part) for key, part in named.items()}

    def rule(node: Expr) -> Expr | None:
        if not _is_dense(node) or node.args[1].name_hint not in made:  # type: ignore[attr-defined]
            return None
        return sparse_dense(node.args[0], made[node.args[1].name_hint])  # type: ignore[attr-defined]

    return _rewritten(func, rule), _used(func, rule, found)


def simplify_fc_transpose(func: Function, params: Params) -> tuple[Function, dict[str, Any]]:
    """`nn.dense(x, transpose(w))` of a parameter reads it as it is, stored the other way round: `w.T`."""
    found = dict(params)
    made: dict[str, Var] = {}

    def rule(node: Expr) -> Expr | None:
        if not is_call(node, "nn.dense") or not is_call(node.args[1], "transpose"):  # type: ignore[attr-defined]
            return None
        (weight,) = node.args[1].args  # type: ignore[attr-defined]
        if not isinstance(weight, Var) or weight.name_hint not in params:
            return None
        stored = np.ascontiguousarray(params[weight.name_hint].numpy().T)
        name = f"{weight.name_hint}.T"
        found[name] = arrays.array(stored)
        var = made.setdefault(name, Var(name, TensorType(stored.shape, str(stored.dtype))))
        return dense(node.args[0], var)  # type: ignore[attr-defined]

    return _rewritten(func, rule), _used(func, rule, found)


def _is_dense(node: Expr) -> bool:
    return isinstance(node, Call) and is_call(node, "nn.dense") and isinstance(node.args[1], Var)


def _weights(func: Function) -> list[str]:
    """The parameters that dense layers take as weights."""
    return [node.args[1].name_hint for node in calls(func.body) if _is_dense(node)]  # type: ignore[attr-defined]


def _rewritten(func: Function, rule: Any) -> Function:
    body = rewrite(func.body, rule)
    used = free_vars(body)
    kept = [param for param in func.params if param in used or param not in free_vars(func.body)]
    params = [*kept, *(var for var in used if var not in func.params)]
    return infer_type(IRModule.from_expr(Function(params, body, func.ret_type, func.type_params, func.attrs)))["main"]


def _used(func: Function, rule: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters without those that only the function before needed."""
    before = {param.name_hint for param in func.params}
    after = {param.name_hint for param in _rewritten(func, rule).params}
    return {name: value for name, value in params.items() if name in after or name not in before}


def random_bsr_matrix(m: int, n: int, bs_r: int, bs_c: int, density: float, dtype: str) -> Any:
    """A matrix [m, n] as `scipy.sparse.bsr_matrix`: the share `density` of its blocks, and one more, are random values.

    Raises InputError where blocks do not divide it.
    """
    if m % bs_r or n % bs_c:
        raise InputError(f"random_bsr_matrix: blocks of {bs_r} x {bs_c} do not divide a matrix of {m} x {n}")
    try:
        from scipy.sparse import bsr_matrix  # scipy is no dependency of this package
    except ImportError:
        raise EnvironmentError_("random_bsr_matrix makes a matrix of scipy: pip install scipy") from None
    rows, columns = m // bs_r, n // bs_c
    count = min(int(int(density * m * n) / (bs_r * bs_c)) + 1, rows * columns)
    there = np.zeros(rows * columns, bool)
    there[np.random.choice(there.size, count, replace=False)] = True
    blocks = np.random.randn(count, bs_r, bs_c).astype(dtype)
    positions = there.reshape(rows, columns)
    starts = np.concatenate([[0], np.cumsum(positions.sum(1))]).astype("int32")
    return bsr_matrix((blocks, np.nonzero(positions)[1].astype("int32"), starts), shape=(m, n))


def random_sparse_dense_params(func: Function, params: Params, bs_r: int, bs_c: int, density: float) -> dict[str, Any]:
    """`params` with weights of `nn.dense` that blocks divide random and sparse."""
    found = dict(params)
    for name in _weights(func):
        height, width = found[name].shape
        if not height % bs_r and not width % bs_c:
            made = random_bsr_matrix(height, width, bs_r, bs_c, density, str(found[name].dtype))
            found[name] = arrays.array(np.asarray(made.todense()))
    return found


def convert_model_dense_to_sparse(
    mod: Any,
    params: Params,
    random_params: bool = False,
    bs_r: int = 1,
    bs_c: int = 1,
    sparsity: float = 0.85,
    layout: str = "NHWC",
) -> tuple[Any, dict[str, Any]]:
    """A model whose dense layers with weights of `sparsity` zeros, or a tenth less, take sparse ones; with
    `random_params` weights are random first. Convolutions of either layout stay as they are."""
    func, given = simplify_fc_transpose(mod["main"], params)
    if random_params:
        given = random_sparse_dense_params(func, given, bs_r, bs_c, 1 - sparsity)
    func, given = bsr_dense(func, given, (bs_r, bs_c), sparsity - 0.1)
    return IRModule.from_expr(func), given
