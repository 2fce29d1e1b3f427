"""Text of tensor-core instructions, asynchronous copies and wide accesses in CUDA C++, as inline PTX.

The host's compiler has no PTX: `runtime/gpu/cuda_emulation.h` defines the functions of `TENSOR_CORE_FUNCTIONS` instead.
"""

from __future__ import annotations

from tilewright.codegen.source.builder import SourceBuilder
from tilewright.codegen.source.expressions import flat_index
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr, StringImm
from tilewright.tir.tensor_core import INSTRUCTIONS, integer

_HEAD = "__device__ __forceinline__ void "


def _ldmatrix(suffix: str, name: str) -> str:
    return f"""\
{_HEAD}tilewright_{name}(unsigned int* r, const void* p) {{
  asm volatile("ldmatrix.sync.aligned.m8n8.x4{suffix}.shared.b16 {{%0, %1, %2, %3}}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(tilewright_shared_address(p)) : "memory");
}}"""


def _mma(kind: str, depth: int, sums: str) -> str:
    """A function for one kind; sums of integers are in "r" registers, of floats in "f"."""
    c, d = ("float", "f") if sums == "float32" else ("int", "r")
    types = f"f32.{kind}.{kind}.f32" if sums == "float32" else f"s32.{kind}.{kind}.s32"
    return f"""\
{_HEAD}tilewright_mma_{kind}({c}* c, const unsigned int* a, const unsigned int* b) {{
  asm volatile("mma.sync.aligned.m16n8k{depth}.row.col.{types} {{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, "
               "{{%0, %1, %2, %3}};"
               : "+{d}"(c[0]), "+{d}"(c[1]), "+{d}"(c[2]), "+{d}"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}}"""


def _cp_async(size: int) -> str:
    """Copies of 16 bytes pass by the first-level cache, which only those can."""
    cache = "cg" if size == 16 else "ca"
    return f"""\
{_HEAD}tilewright_cp_async_{size}(void* to, const void* from, bool there) {{
  asm volatile("cp.async.{cache}.shared.global [%0], [%1], {size}, %2;"
               :: "r"(tilewright_shared_address(to)), "l"(from), "r"(there ? {size} : 0) : "memory");
}}
{_HEAD}tilewright_cp_async_{size}(void* to, const void* from) {{
  asm volatile("cp.async.{cache}.shared.global [%0], [%1], {size};"
               :: "r"(tilewright_shared_address(to)), "l"(from) : "memory");
}}"""


#: The functions that the calls become.
TENSOR_CORE_FUNCTIONS = "\n".join(
    [
        "__device__ __forceinline__ unsigned int tilewright_shared_address(const void* p) {",
        "  return (unsigned int)__cvta_generic_to_shared(p);",
        "}",
        _ldmatrix("", "ldmatrix"),
        _ldmatrix(".trans", "ldmatrix_transposed"),
        *[_mma(x.kind, x.depth, x.sums) for x in INSTRUCTIONS.values()],
        *[_cp_async(size) for size in (4, 8, 16)],
        f'{_HEAD}tilewright_commit_group() {{ asm volatile("cp.async.commit_group;" ::: "memory"); }}',
        f"template <int N> {_HEAD}tilewright_wait_group() "
        '{ asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory"); }',
    ]
)


def _address(b: SourceBuilder, position: Expr) -> str:
    assert isinstance(position, BufferLoad)
    return f"&{b.name(position.buffer)}[{b.value(flat_index(position.buffer, position.indices))}]"


def _load(b: SourceBuilder, call: Call) -> None:
    registers, memory, transposed = call.args
    name = "ldmatrix_transposed" if integer(transposed) else "ldmatrix"
    b.line(f"tilewright_{name}({_address(b, registers)}, {_address(b, memory)});")


def _multiply(b: SourceBuilder, call: Call) -> None:
    *positions, kind = call.args
    assert isinstance(kind, StringImm)
    b.line(f"tilewright_mma_{kind.value}({', '.join(_address(b, p) for p in positions)});")


def _copy(b: SourceBuilder, call: Call) -> None:
    to, source, size, condition = call.args
    there = "" if _always(condition) else f", {b.value(condition)}"
    b.line(f"tilewright_cp_async_{integer(size)}({_address(b, to)}, {_address(b, source)}{there});")


def _always(condition: Expr) -> bool:
    return getattr(condition, "value", None) == 1


def _commit(b: SourceBuilder, call: Call) -> None:
    b.line("tilewright_commit_group();")


def _wait(b: SourceBuilder, call: Call) -> None:
    b.line(f"tilewright_wait_group<{integer(call.args[0])}>();")


#: Types of so many bytes.
_WIDE = {2: "unsigned short", 4: "unsigned int", 8: "uint2", 16: "uint4"}


def _copy_vector(b: SourceBuilder, call: Call) -> None:
    target, source, size = call.args
    kind = _WIDE[integer(size)]
    b.line(f"*({kind}*)({_address(b, target)}) = *(const {kind}*)({_address(b, source)});")


def dynamic_array(b: SourceBuilder, buffer: Buffer) -> str:
    """The declaration of shared memory whose size the launch says."""
    return f"extern __shared__ __align__(128) {b.dialect.memory_type(buffer.dtype)} {b.name(buffer)}[];"


#: The statements, as `Dialect.effects` wants them.
TENSOR_CORE_CALLS = {
    "ptx_ldmatrix": _load,
    "ptx_mma": _multiply,
    "ptx_cp_async": _copy,
    "ptx_commit_group": _commit,
    "ptx_wait_group": _wait,
    "copy_vector": _copy_vector,
}
