"""Names of v0.6 and before: passes as functions (`tvm.ir_pass`), nodes by makers (`tvm.make`), options of lowering.

A pass of `ir_pass` takes and returns what it looks at itself, a statement, an expression or a function, in place of a
module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright import tir
from tilewright.compat.ir.module import IRModule
from tilewright.compat.ir.pass_config import ADDED, CHECKED, SERIAL, PassContext
from tilewright.compat.ir.structure import assert_structural_equal, structural_equal
from tilewright.compat.runtime.stands_for import stands_for
from tilewright.compat.tir import nodes as tir_nodes
from tilewright.compat.tir import passes as tir_passes
from tilewright.compat.tir.makers import EnvFunc
from tilewright.compat.tir.math import call_intrin
from tilewright.compat.tir.stmt_functor import ir_transform
from tilewright.errors import UnsupportedError
from tilewright.support.named import named
from tilewright.tir import arith, op
from tilewright.tir.structural import structural_equal as same_tir
from tilewright.tir.visitor import post_order

#: Options of lowering that change a result, and what they are called in a `PassContext`.
_OPTIONS = {"add_lower_pass": ADDED, "disable_vectorize": SERIAL, "instrument_bound_checkers": CHECKED}
#: Those that only say how loops are written out.
_HINTS = (
    *("auto_unroll_max_step", "auto_unroll_max_depth", "auto_unroll_max_extent", "unroll_explicit", "data_alignment"),
    *("detect_global_barrier", "partition_const_loop", "offset_factor", "double_buffer_split_loop", "restricted_func"),
    *("disable_select_rewriting", "disable_assert", "dump_pass_ir"),
)


def build_config(**config: Any) -> PassContext:
    """Options of lowering and building while it is open.

    Raises `UnsupportedError` for those that are none. `dump_pass_ir` prints nothing.
    """
    unknown = [name for name in config if name not in _OPTIONS and name not in _HINTS]
    if unknown:
        raise UnsupportedError(
            f"build_config has no option {unknown[0]!r}; there are {', '.join((*_OPTIONS, *_HINTS))}"
        )
    return PassContext(config={_OPTIONS[name]: value for name, value in config.items() if name in _OPTIONS})


def equal(lhs: Any, rhs: Any) -> bool:
    """True if two expressions or statements are one up to the names of their variables."""
    lhs, rhs = (op.convert(side) if isinstance(side, int | float) else side for side in (lhs, rhs))
    if isinstance(lhs, tir.Stmt) and isinstance(rhs, tir.Stmt):
        return same_tir(lhs, rhs)
    return structural_equal(lhs, rhs)


def simplify(node: Any, bounds: Mapping[tir.Var, Any] | None = None, *_: Any) -> Any:
    """An expression simplified, where variables keep to the ranges `bounds`; or a statement."""
    if isinstance(node, tir.Stmt):
        return _over("Simplify")(node)
    analyzer = arith.Analyzer()
    for var, span in (bounds or {}).items():
        analyzer.bind(var, span)
    return analyzer.simplify(op.convert(node))


def uses_variable(node: Any, var: tir.Var) -> bool:
    """True if an expression reads the variable."""
    found: list[Any] = []
    post_order(node, found.append)
    return any(part is var for part in found)


def attributes_equal(lhs: Any, rhs: Any) -> bool:
    """True if two sets of attributes are equal."""
    return bool(lhs == rhs)


def transform(stmt: Any, preorder: Any, postorder: Any, only_enable: Sequence[Any] | None = None) -> Any:
    """`tir.stmt_functor.ir_transform`, by its oldest name."""
    return ir_transform(stmt, preorder, postorder, [str(name) for name in only_enable or ()])


def make_api(
    body: tir.Stmt, name: str, args: Sequence[Any], num_unpacked_args: int = 0, is_restricted: bool = True
) -> tir.PrimFunc:
    """The function `name` of buffers and scalars with this body."""
    return tir.PrimFunc(name, [getattr(arg, "buffer", arg) for arg in args], body, {"noalias": bool(is_restricted)})


def _over(name: str) -> Callable[..., Any]:
    """The pass `name` of `tir.transform` over a statement or a function. Its further arguments are hints."""

    def run(node: Any, *_hints: Any) -> Any:
        func = node if isinstance(node, tir.PrimFunc) else tir.PrimFunc("main", [], node)
        made = tir_passes.CONSTRUCTORS[name]()(IRModule({func.name: func}))[func.name]
        return made if node is func else made.body

    return named(run, name, f"The pass {name} of tvm.tir.transform over a statement or a function.")


def __getattr__(name: str) -> Any:
    if name in tir_passes.CONSTRUCTORS:
        return _over(name)
    raise AttributeError(name)


#: How a call by name is meant, by number.
_EXTERN, _PLAIN_C, _PURE_EXTERN, _TENSOR, _INTRINSIC, _PURE_INTRINSIC = range(6)


def _call(
    dtype: str, name: Any, args: Sequence[Any], call_type: int = _INTRINSIC, func: Any = None, value_index: int = 0
) -> tir.Expr:
    """A call of the intrinsic or external function `name`. Raises `UnsupportedError` for elements of tensors."""
    if call_type == _TENSOR:
        raise UnsupportedError(f"make.Call of the tensor {name}: write its element as tensor[i, j]")
    if call_type in (_EXTERN, _PLAIN_C, _PURE_EXTERN):
        return tir.call_extern(dtype, name, *args)
    made: tir.Expr = call_intrin(dtype, name, *args)
    return made


Call = stands_for(
    tir.Call, _call, Extern=_EXTERN, ExternCPlusPlus=_PLAIN_C, PureExtern=_PURE_EXTERN, Halide=_TENSOR,
    Intrinsic=_INTRINSIC, PureIntrinsic=_PURE_INTRINSIC,
)  # fmt: skip


def _loop(loop_var: tir.Var, min_value: Any, extent: Any, for_type: Any, device_api: Any, body: tir.Stmt) -> tir.For:
    made: tir.For = tir_nodes.For(loop_var, min_value, extent, for_type, body)
    return made


#: A loop, with a device's number before its body.
For = stands_for(tir.For, _loop, Serial=0, Parallel=1, Vectorized=2, Unrolled=3)
Block = stands_for(tir.SeqStmt, tir.seq)
UIntImm = stands_for(tir.IntImm, lambda dtype, value: tir.const(value, dtype))
#: Types of elements by their names.
float32, int32, handle = "float32", "int32", "handle"
get_env_func = EnvFunc.get


def graph_equal(lhs: Any, rhs: Any) -> bool:
    """True if both are equal up to the names of variables, free ones too."""
    return structural_equal(lhs, rhs, map_free_vars=True)


def assert_graph_equal(lhs: Any, rhs: Any) -> None:
    """Raise `ValueError` showing both, unless they are `graph_equal`."""
    assert_structural_equal(lhs, rhs, map_free_vars=True)
