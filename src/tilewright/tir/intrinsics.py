"""The known names of `Call.op`: how many arguments each takes, what its dtype is, and whether it has an effect.

A call of a name that is not listed here is a fault: the checker (`verify.py`) reports it. A call is pure if it may be
dropped, repeated or moved freely.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tilewright.support.dtype import DType
from tilewright.tir.expr import Call, StringImm

DTypeRule = Callable[[Call], str | None]


class Intrinsic(NamedTuple):
    """`arity` is the number of arguments (None: any); `rule` returns what is wrong with a call's dtypes, or None."""

    arity: int | None
    rule: DTypeRule
    pure: bool
    doc: str


def _like_arguments(call: Call) -> str | None:
    wrong = [a for a in call.args if a.dtype is not call.dtype]
    return f"takes and returns one dtype; it returns {call.dtype} of {wrong[0].dtype}" if wrong else None


def _like_floats(call: Call) -> str | None:
    return _like_arguments(call) if call.dtype.is_float else f"is of floats; it returns {call.dtype}"


def _like_ints(call: Call) -> str | None:
    if not (call.dtype.is_int or call.dtype.element.is_bool):
        return f"is of integers; it returns {call.dtype}"
    return _like_arguments(call)


def _classify(call: Call) -> str | None:
    (x,) = call.args
    fits = x.dtype.is_float and call.dtype is DType("bool").with_lanes(x.dtype.lanes)
    return None if fits else f"returns bool of a float; it returns {call.dtype} of {x.dtype}"


def _choice(call: Call) -> str | None:
    condition, a, b = call.args
    if condition.dtype != "bool":
        return f"takes a scalar bool condition, not {condition.dtype}; use select for vectors"
    return None if a.dtype is call.dtype is b.dtype else f"returns {call.dtype} of {a.dtype} and {b.dtype}"


def _bits(call: Call) -> str | None:
    (x,) = call.args
    same = x.dtype.bits * x.dtype.lanes == call.dtype.bits * call.dtype.lanes
    return None if same else f"keeps the bits; {x.dtype} and {call.dtype} differ in size"


def _fold(call: Call) -> str | None:
    (x,) = call.args
    return (
        None if x.dtype.element is call.dtype else f"returns the element type of its vector; {call.dtype} of {x.dtype}"
    )


def _some(call: Call) -> str | None:
    (x,) = call.args
    fits = call.dtype == "bool" and x.dtype.element.is_bool
    return None if fits else f"returns one bool of many; it returns {call.dtype} of {x.dtype}"


def _of_first(call: Call) -> str | None:
    first, *rest = call.args
    fits = first.dtype is call.dtype and all(x.dtype == "int32" for x in rest)
    return None if fits else f"returns {call.dtype} of a value of that dtype and two int32"


def _dot(call: Call) -> str | None:
    acc, a, b = call.args
    lanes = acc.dtype.lanes
    bytes_ = all(x.dtype.element in ("int8", "uint8") and x.dtype.lanes == 4 * lanes for x in (a, b))
    fits = call.dtype is acc.dtype and acc.dtype.element == "int32" and bytes_
    return None if fits else f"adds products of bytes to int32 lanes; {call.dtype} of {acc.dtype}, {a.dtype}, {b.dtype}"


def _looked_up(call: Call) -> str | None:
    index, *numbers = call.args
    fits = index.dtype.element == "int32" and all(x.dtype.element == "float32" for x in numbers)
    fits = fits and call.dtype is DType("float32").with_lanes(index.dtype.lanes)
    return None if fits else f"looks int32 up in float32; {call.dtype} of {index.dtype} in {numbers[0].dtype}"


def _dot_of_words(call: Call) -> str | None:
    fits = call.dtype == "int32" and call.args[0].dtype == "int32"
    fits = fits and all(x.dtype in ("int32", "uint32") for x in call.args[1:])
    return None if fits else f"adds products of the bytes of two words to an int32; got {[x.dtype for x in call.args]}"


def _dot_of_pairs(call: Call) -> str | None:
    acc, a, b = call.args
    kinds = {"float32": "bfloat16", "int32": "int16"}
    wanted = kinds.get(str(acc.dtype.element))
    pairs = all(x.dtype.element == wanted and x.dtype.lanes == 2 * acc.dtype.lanes for x in (a, b))
    if call.dtype is acc.dtype and wanted and pairs:
        return None
    found = f"{call.dtype} of {acc.dtype}, {a.dtype}, {b.dtype}"
    return f"adds products of bfloat16 to float32, or of int16 to int32; {found}"


def _pair_of_floats(call: Call) -> str | None:
    fits = call.dtype.element == "int32" and all(
        x.dtype is DType("float32").with_lanes(call.dtype.lanes) for x in call.args
    )
    return None if fits else f"makes int32 of two float32; {call.dtype} of {[x.dtype for x in call.args]}"


def _of_table(call: Call) -> str | None:
    table, index = call.args
    fits = call.dtype is index.dtype and index.dtype.element == "uint8"
    fits = fits and (table.dtype == "uint8x16" or table.dtype is index.dtype)
    return None if fits else f"picks of 16 uint8 by uint8; {call.dtype} of {table.dtype} by {index.dtype}"


def _mask(call: Call) -> str | None:
    (x,) = call.args
    fits = x.dtype.element.is_bool and call.dtype == f"uint{x.dtype.lanes}"
    return None if fits else f"returns a word with a bit for each bool; {call.dtype} of {x.dtype}"


def _int32(call: Call) -> str | None:
    return None if call.dtype == "int32" else f"returns int32, not {call.dtype}"


def _handle(call: Call) -> str | None:
    return None if call.dtype == "handle" else f"returns a handle, not {call.dtype}"


def _named(call: Call) -> str | None:
    return None if call.args and isinstance(call.args[0], StringImm) else "takes a function's name first, as a string"


def _anything(call: Call) -> str | None:
    return None


def _group(names: str, arity: int | None, rule: DTypeRule, doc: str, pure: bool = True) -> dict[str, Intrinsic]:
    return {name: Intrinsic(arity, rule, pure, doc) for name in names.split()}


INTRINSICS: dict[str, Intrinsic] = {
    **_group("exp exp2 expm1 log log2 log10 log1p sqrt rsqrt cbrt", 1, _like_floats, "exponentials, roots"),
    **_group("tanh sigmoid silu mish gelu gelu_tanh erf erfc lgamma tgamma", 1, _like_floats, "activations, gamma"),
    **_group("sin cos tan asin acos atan sinh cosh asinh acosh atanh", 1, _like_floats, "trigonometry, radians"),
    **_group("floor ceil trunc round fabs abs", 1, _like_floats, "rounding (`round`: ties to even) and magnitude"),
    **_group(
        "exp2_approx", 1, _like_floats, "2 to the x <= 127, within 4e-7 or as the device has it; tiny results are 0"
    ),
    **_group("fmax", 2, _like_floats, "the larger of two floats; where one is NaN the other"),
    **_group("pow fmod atan2 hypot copysign", 2, _like_floats, "functions of two floats"),
    **_group("fma", 3, _like_floats, "a * b + c, rounded once where the target can"),
    **_group("half_fma", 3, _like_floats, "a * b + c in arithmetic of float16 (backend/cpu/schedule/half_intrin.py)"),
    **_group("isnan isinf isfinite", 1, _classify, "classes of floats"),
    **_group("bitwise_and bitwise_or bitwise_xor", 2, _like_ints, "bits"),
    **_group("shift_left shift_right", 2, _like_ints, "a << b, a >> b; the sign is kept by signed types"),
    **_group("bitwise_not popcount clz", 1, _like_ints, "bits of one integer"),
    **_group("reinterpret", 1, _bits, "the same bits as another dtype"),
    **_group("if_then_else", 3, _choice, "only the side that is taken is evaluated"),
    **_group("likely", 1, _like_arguments, "its argument, which is nearly always true"),
    **_group("vector_reduce_add vector_reduce_mul vector_reduce_max vector_reduce_min", 1, _fold, "all lanes into one"),
    **_group("any_lane", 1, _some, "true if a condition holds in some lane: whether a rare case is worth a branch"),
    **_group("dot4 dot4_in_pairs", 3, _dot, "sums and dot products of four bytes for each lane (tir/dot_product.py)"),
    **_group("look_up", 17, _looked_up, "numbers of a table by the lowest four bits of each lane (tir/look_up.py)"),
    **_group("dp4a", 3, _dot_of_words, "a sum and the dot product of the four bytes of two words (tir/dot_product.py)"),
    **_group("dot2", 3, _dot_of_pairs, "sums and dot products of two bfloat16 or int16 a lane (tir/dot_product.py)"),
    **_group("bfloat16_pair", 2, _pair_of_floats, "two float32, rounded, as halves of words (tir/dot_product.py)"),
    **_group("table_lookup", 2, _of_table, "for each lane the byte of a table that it names (tir/table_lookup.py)"),
    **_group("mask_bits", 1, _mask, "a word with a bit for each lane of bools (tir/table_lookup.py)"),
    **_group("worker_id num_workers", 0, _int32, "this worker's number, and how many there are"),
    **_group("region_id", 0, _int32, "the number of the kernel of a run loop that is to be called"),
    **_group("address_of", None, _handle, "the address of the element a load names; with 'r', for reading only"),
    **_group("pointer_add", 2, _handle, "an address moved by a number of bytes"),
    **_group("thread_axes", None, _handle, "thread variables, listed for an attribute"),
    **_group(
        "warp_shuffle", 3, _of_first, "x of thread number y among each z neighbours; alone, where all of them come"
    ),
    **_group("warp_shuffle_down", 3, _of_first, "x of the thread y further on among z neighbours; else its own"),
    **_group("has_subgroups", 0, _anything, "true if the text of a kernel is for devices with subgroups (WGSL)"),
    **_group("subgroup_size subgroup_lane", 0, _int32, "the threads of this thread's subgroup, and its number in it"),
    **_group("subgroup_shuffle", 2, _of_first, "x of the thread with number y of the subgroup"),
    **_group("subgroup_shuffle_down", 2, _of_first, "x of the thread y further on in the subgroup, where there is one"),
    **_group("rolling", 3, _handle, "loop variable, dimension and step of a rolling buffer, for an attribute"),
    **_group("storage_sync", 1, _int32, "waits until all threads of a block are here and see its stores", pure=False),
    **_group("barrier", 0, _int32, "waits until all workers are here", pure=False),
    **_group("dep_push dep_pop", 2, _int32, "a token from one unit of a coprocessor to another", pure=False),
    **_group("access_region", None, _handle, "the address of a box: how accessed, its first element, its extents"),
    **_group("ptx_ldmatrix", 3, _int32, "fragments from shared memory to registers (tir/tensor_core.py)", pure=False),
    **_group("arrive", 3, _int32, "counts the blocks that came here; the last of them is the last", pure=False),
    **_group("ptx_mma", 4, _int32, "a product of fragments added to others", pure=False),
    **_group("ptx_pack", 4, _int32, "two floats as 16 bits each in one register", pure=False),
    **_group("ptx_wgmma", 5, _int32, "a product of tiles in shared memory by four warps", pure=False),
    **_group("ptx_wgmma_fence ptx_wgmma_commit ptx_fence_proxy", 0, _int32, "order of such products", pure=False),
    **_group("ptx_wgmma_wait", 1, _int32, "waits until at most so many groups of them run", pure=False),
    **_group("ptx_cp_async", 4, _int32, "bytes from global to shared memory, without waiting", pure=False),
    **_group("ptx_commit_group", 0, _int32, "a group of the copies since the last one", pure=False),
    **_group("ptx_wait_group", 1, _int32, "waits until at most so many groups are on the way", pure=False),
    **_group("copy_vector", 3, _int32, "so many bytes from one aligned position to another", pure=False),
    **_group("tile_zero", 2, _int32, "a matrix register of sums of 0 (tir/matrix_tiles.py)", pure=False),
    **_group("tile_load", 5, _int32, "rows of a matrix register from memory", pure=False),
    **_group("tile_store", 4, _int32, "rows of a matrix register to memory", pure=False),
    **_group("tile_product", 4, _int32, "a product of matrix registers added to another", pure=False),
    **_group("prefetch", None, _anything, "a hint that an address will be read", pure=False),
    **_group("call_extern", None, _named, "a C function, taken as pure when its value is used", pure=False),
    **_group("call_packed", None, _named, "a Python function by its registered name", pure=False),
    **_group("packed_array", None, _handle, "address, type and dimensions of an array, for call_packed"),
    **_group("call_function", None, _named, "another function of the module", pure=False),
}


def declare(name: str, pure: bool) -> None:
    """Let calls of `name`, of any arguments, stand in loops; what lowers them must be run before code is made.

    A name that is known already stays as it is.
    """
    INTRINSICS.setdefault(name, Intrinsic(None, _anything, pure, "declared by a program, which lowers it itself"))


def written_through(call: Call) -> bool:
    """True if memory may be written through the address that the call returns."""
    if call.op == "access_region":
        mask = call.args[0]
        return isinstance(mask, StringImm) and "w" in mask.value
    return call.op == "address_of" and len(call.args) == 1
