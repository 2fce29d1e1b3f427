"""Text of tensor-core instructions, asynchronous copies and wide accesses in CUDA C++, as inline PTX.

The host's compiler has no PTX: `runtime/gpu/cuda_emulation.h` defines these functions instead.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.codegen.source.builder import SourceBuilder
from tilewright.codegen.source.expressions import flat_index
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr, StringImm
from tilewright.tir.tensor_core import ALIGNMENT, INSTRUCTIONS, Instruction, integer

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


def _pack(kind: str) -> str:
    return f"""\
{_HEAD}tilewright_pack_{kind}(unsigned int* r, float low, float high) {{
  asm("cvt.rn.{kind}x2.f32 %0, %1, %2;" : "=r"(*r) : "f"(high), "f"(low));
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


def _wgmma(columns: int, instruction: Instruction) -> str:
    """A function for one width; a thread has half as many sums as there are columns."""
    floats, count = instruction.sums == "float32", columns // 2
    c, d = ("float", "f") if floats else ("int", "r")
    kind = instruction.kind
    types = f"f32.{kind}.{kind}" if floats else f"s32.{kind}.{kind}"
    sums = ", ".join(f"%{i}" for i in range(count))
    operands = ", ".join(f'"+{d}"(c[{i}])' for i in range(count))
    return f"""\
{_HEAD}tilewright_wgmma_{kind}_{columns}({c}* c, const void* a, const void* b) {{
  asm volatile("wgmma.mma_async.sync.aligned.m64n{columns}k{instruction.depth}.{types} "
               "{{{sums}}}, %{count}, %{count + 1}, 1{", 1, 1, 0, 0" if floats else ""};"
               : {operands}
               : "l"(tilewright_matrix(a)), "l"(tilewright_matrix(b)));
}}"""


_ADDRESS = """\
__device__ __forceinline__ unsigned int tilewright_shared_address(const void* p) {
  return (unsigned int)__cvta_generic_to_shared(p);
}"""

#: Descriptors of tiles: eight lines of 128 bytes to the next eight, their chunks permuted by eight (the PTX ISA,
#: "Matrix descriptor format").
_WARPGROUP = f"""\
__device__ __forceinline__ unsigned long long tilewright_matrix(const void* p) {{
  unsigned long long address = (tilewright_shared_address(p) & 0x3ffff) >> 4;
  return (1ull << 62) | (64ull << 32) | (1ull << 16) | address;
}}
{_HEAD}tilewright_wgmma_fence() {{ asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }}
{_HEAD}tilewright_wgmma_commit() {{ asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }}
template <int N> {_HEAD}tilewright_wgmma_wait() {{
  asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory");
}}
{_HEAD}tilewright_fence_proxy() {{ asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }}"""

_PIPELINE = "\n".join(
    [
        *[_cp_async(size) for size in (4, 8, 16)],
        f'{_HEAD}tilewright_commit_group() {{ asm volatile("cp.async.commit_group;" ::: "memory"); }}',
        f"template <int N> {_HEAD}tilewright_wait_group() "
        '{ asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory"); }',
    ]
)


def tensor_core_functions(calls: Iterable[Call]) -> str:
    """The functions that `calls` become, for the device's compiler; empty where none of them needs any."""
    calls = [call for call in calls if call.op.startswith("ptx_")]
    if not calls:
        return ""
    parts = [_ADDRESS, _PIPELINE, _ldmatrix("", "ldmatrix"), _ldmatrix(".trans", "ldmatrix_transposed")]
    by_kind = {x.kind: x for x in INSTRUCTIONS.values()}
    kinds = sorted({_kind(call) for call in calls if call.op == "ptx_mma"})
    parts += [_mma(kind, by_kind[kind].depth, by_kind[kind].sums) for kind in kinds]
    parts += [_pack(kind) for kind in sorted({_kind(call) for call in calls if call.op == "ptx_pack"})]
    wide = sorted({(integer(call.args[3]), _kind(call)) for call in calls if call.op == "ptx_wgmma"})
    parts += [_WARPGROUP] * bool(wide) + [_wgmma(columns, by_kind[kind]) for columns, kind in wide]
    return "\n".join(["#ifdef __CUDACC_RTC__", *parts, "#endif"])


def _kind(call: Call) -> str:
    kind = call.args[-1]
    assert isinstance(kind, StringImm)
    return kind.value


def _address(b: SourceBuilder, position: Expr) -> str:
    assert isinstance(position, BufferLoad)
    return f"&{b.name(position.buffer)}[{b.value(flat_index(position.buffer, position.indices))}]"


def _load(b: SourceBuilder, call: Call) -> None:
    registers, memory, transposed = call.args
    name = "ldmatrix_transposed" if integer(transposed) else "ldmatrix"
    b.line(f"tilewright_{name}({_address(b, registers)}, {_address(b, memory)});")


def _multiply(b: SourceBuilder, call: Call) -> None:
    *positions, _ = call.args
    b.line(f"tilewright_mma_{_kind(call)}({', '.join(_address(b, p) for p in positions)});")


def _pack_two(b: SourceBuilder, call: Call) -> None:
    register, low, high, _ = call.args
    b.line(f"tilewright_pack_{_kind(call)}({_address(b, register)}, {b.value(low)}, {b.value(high)});")


def _multiply_wide(b: SourceBuilder, call: Call) -> None:
    *positions, columns, _ = call.args
    listed = ", ".join(_address(b, p) for p in positions)
    b.line(f"tilewright_wgmma_{_kind(call)}_{integer(columns)}({listed});")


def _copy(b: SourceBuilder, call: Call) -> None:
    to, source, size, condition = call.args
    there = "" if _always(condition) else f", {b.value(condition)}"
    b.line(f"tilewright_cp_async_{integer(size)}({_address(b, to)}, {_address(b, source)}{there});")


def _always(condition: Expr) -> bool:
    return getattr(condition, "value", None) == 1


def _order(b: SourceBuilder, call: Call) -> None:
    """Fences, groups, and waits for all but some groups."""
    number = f"<{integer(call.args[0])}>" if call.args else ""
    b.line(f"tilewright_{call.op.removeprefix('ptx_')}{number}();")


#: Types of so many bytes.
_WIDE = {2: "unsigned short", 4: "unsigned int", 8: "uint2", 16: "uint4"}


def _copy_vector(b: SourceBuilder, call: Call) -> None:
    target, source, size = call.args
    kind = _WIDE[integer(size)]
    b.line(f"*({kind}*)({_address(b, target)}) = *(const {kind}*)({_address(b, source)});")


def dynamic_array(b: SourceBuilder, buffer: Buffer) -> str:
    """The declaration of shared memory whose size the launch says."""
    return f"extern __shared__ __align__({ALIGNMENT}) {b.dialect.memory_type(buffer.dtype)} {b.name(buffer)}[];"


#: The statements, as `Dialect.effects` wants them.
TENSOR_CORE_CALLS = {
    "ptx_ldmatrix": _load,
    "ptx_mma": _multiply,
    "ptx_pack": _pack_two,
    "ptx_cp_async": _copy,
    "ptx_wgmma": _multiply_wide,
    **dict.fromkeys(
        (
            "ptx_commit_group",
            "ptx_wait_group",
            "ptx_wgmma_fence",
            "ptx_wgmma_commit",
            "ptx_wgmma_wait",
            "ptx_fence_proxy",
        ),
        _order,
    ),
    "copy_vector": _copy_vector,
}
