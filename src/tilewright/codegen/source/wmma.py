"""Text of the calls on fragments, and of their storage, in CUDA C++ (namespace nvcuda::wmma of <mma.h>)."""

from __future__ import annotations

from tilewright.codegen.source.builder import SourceBuilder
from tilewright.codegen.source.expressions import flat_index
from tilewright.errors import UnsupportedError
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr, FloorDiv, FloorMod, IntImm
from tilewright.tir.warp_matrix import ACCUMULATOR, MATRIX_A, MATRIX_B, SIDE

_WMMA = "nvcuda::wmma::"
_TYPES = {
    MATRIX_A: ("float16", f"matrix_a, {SIDE}, {SIDE}, {SIDE}, half, {_WMMA}row_major"),
    MATRIX_B: ("float16", f"matrix_b, {SIDE}, {SIDE}, {SIDE}, half, {_WMMA}row_major"),
    ACCUMULATOR: ("float32", f"accumulator, {SIDE}, {SIDE}, {SIDE}, float"),
}


def fragment_array(b: SourceBuilder, buffer: Buffer) -> str:
    """The declaration of a buffer of fragments. Raises UnsupportedError where it does not consist of whole ones."""
    dtype, arguments = _TYPES[buffer.scope]
    size = buffer.constant_size() or 0
    if str(buffer.dtype) != dtype or size % SIDE**2 or not size:
        raise UnsupportedError(
            f"{buffer!r}: fragments of {buffer.scope} hold {SIDE} x {SIDE} elements of {dtype}; make the stage's "
            "region a multiple of that, of that type"
        )
    return f"{_WMMA}fragment<{_WMMA}{arguments}> {b.name(buffer)}[{size // SIDE**2}];"


def _fragment(b: SourceBuilder, position: Expr, stride: Expr) -> str:
    """The fragment that begins at `position`; fragments are numbered row by row."""
    assert isinstance(position, BufferLoad) and isinstance(stride, IntImm)
    index, row = flat_index(position.buffer, position.indices), SIDE * stride.value
    number = (
        FloorDiv(index, IntImm(index.dtype, row)) * (stride.value // SIDE)
        + FloorMod(index, IntImm(index.dtype, stride.value)) // SIDE
    )
    return f"{b.name(position.buffer)}[{b.value(b.analyzer.simplify(number))}]"


def _address(b: SourceBuilder, position: Expr) -> str:
    assert isinstance(position, BufferLoad)
    return f"&{b.name(position.buffer)}[{b.value(flat_index(position.buffer, position.indices))}]"


def _fill(b: SourceBuilder, call: Call) -> None:
    fragment, stride, value = call.args
    b.line(f"{_WMMA}fill_fragment({_fragment(b, fragment, stride)}, {b.value(value)});")


def _load(b: SourceBuilder, call: Call) -> None:
    fragment, stride, memory, step = call.args
    b.line(f"{_WMMA}load_matrix_sync({_fragment(b, fragment, stride)}, {_address(b, memory)}, {b.value(step)});")


def _multiply(b: SourceBuilder, call: Call) -> None:
    c, a, other = (_fragment(b, *call.args[i : i + 2]) for i in (0, 2, 4))
    b.line(f"{_WMMA}mma_sync({c}, {a}, {other}, {c});")


def _store(b: SourceBuilder, call: Call) -> None:
    memory, step, fragment, stride = call.args
    source = _fragment(b, fragment, stride)
    b.line(f"{_WMMA}store_matrix_sync({_address(b, memory)}, {source}, {b.value(step)}, {_WMMA}mem_row_major);")


#: The statements, as `Dialect.effects` wants them.
FRAGMENT_CALLS = {
    "fill_fragment": _fill,
    "load_matrix_sync": _load,
    "mma_sync": _multiply,
    "store_matrix_sync": _store,
}
