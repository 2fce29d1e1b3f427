"""No figure of a processor stands anywhere but in `machine.py`: numbers at the top of a module need a reason.

A constant of a module is a choice that somebody made once for all machines. This test wants to know why, for every one
above 2 and every fraction in the folders where machines matter, and where schedules are chosen for 2 and whole floats
too. Within functions it lets pass no sizes of vectors and caches, and where schedules are chosen no fraction, no
multiple of a machine's figure and no threshold: such a number has a name at the top of its module.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "tilewright"
FOLDERS = (
    "backend/cpu",
    "backend/gpu/schedule",
    "topi/schedule",
    "relay/transform",
    "tir/transform",
    "codegen",
    "runtime",
)
#: Where a large power of two within a function is looked at as well: it could be a size of a cache.
CHOOSING = ("backend/cpu/schedule", "topi/schedule", "relay/transform", "tir/transform")

#: Where schedules are chosen: cost models and templates.
SCHEDULES = ("backend/cpu/schedule", "backend/gpu/schedule", "topi/schedule")

#: Modules whose numbers are those of a file format, a protocol or an operating system, or the tables of figures.
FORMATS = (
    "backend/gpu/schedule/machine.py",
    "codegen/llvm/half.py", "codegen/source/literals.py", "runtime/container.py", "runtime/dlpack.py", "runtime/elf.py",
    "runtime/gpu/cuda.py", "runtime/gpu/cuda_dlpack.py", "runtime/gpu/cuda_driver.py", "runtime/gpu/vulkan.py",
    "runtime/gpu/vulkan_driver.py", "runtime/host_ops/threefry.py", "runtime/loader.py", "runtime/relocations.py",
    "backend/wasm/binary.py", "backend/wasm/link.py", "backend/wasm/object_file.py", "runtime/shared_library.py",
    "runtime/wasm.py", "runtime/web/machine.py",
)  # fmt: skip

#: Constants that no processor changes, by the reason.
ALLOWED = {
    "limits compile time or the size of code": (
        "relay/transform/quantize/pair_order.py:_ATTEMPTS",
        "relay/transform/quantize/pair_order.py:_FEW",
        "relay/transform/functional/partial_evaluate.py:FUEL",
        "relay/transform/memory/shared_offsets.py:_TRIES",
        "relay/transform/memory/rematerialize.py:_MOST_RUNS",
        "relay/transform/memory/rematerialize.py:_TRIALS",
        "codegen/source/builder.py:_MOST_BRACKETS",
        "codegen/source/share_functions.py:_MOST",
        "codegen/source/vector_runs.py:_LEAST",
        "codegen/source/vector_runs.py:_LONG",
        "relay/transform/fuse/fuse_ops.py:MAX_GROUP",
        "relay/transform/fuse/fuse_ops.py:MAX_READS",
        "relay/transform/fuse/split_args.py:MOST_JOINED",
        "relay/transform/layout/weight_gradients.py:_MOST_TAPS",
        "backend/cpu/schedule/conv2d_backward_weight.py:_WHOLE_WINDOW",
        "relay/transform/simplify/eliminate_common_subexpr.py:CONSTANT_LIMIT",
        "relay/transform/simplify/fold_constant.py:LIMIT",
        "relay/transform/simplify/fold_constant.py:ANY_SIZE",
        "relay/transform/simplify/simplify_expr.py:_STEPS",
        "tir/transform/inject_prefetch.py:_MOST_STRETCHES",
        "tir/transform/loop_partition.py:MOST_SPLITS",
        "tir/transform/lower_warp_memory.py:LARGEST_CHOICE",
        "tir/transform/unroll_loop.py:MOST_STATEMENTS",
        "backend/cpu/schedule/conv2d_nchw.py:_UNROLLED_STEPS",
        "backend/cpu/schedule/conv2d_nchw.py:_UNROLLED_TAPS",
        "backend/cpu/schedule/depthwise_conv2d.py:_UNROLLED_TAPS",
        "backend/cpu/schedule/depthwise_conv2d_nchw.py:_UNROLLED_TAPS",
        "backend/cpu/schedule/pool.py:_UNROLLED_TAPS",
        "topi/schedule/sketch/derive.py:UNROLLED_TERMS",
    ),
    "bounds a search space, of which measuring takes what the processor likes": (
        "topi/schedule/sketch/derive.py:ATTACH_POINTS",
        "topi/schedule/sketch/derive.py:REGISTER_TILE",
        "topi/schedule/sketch/derive.py:_FEW_DIVISORS",
        "topi/schedule/sketch/derive.py:_FEW_RESULTS",
        "topi/schedule/sketch/derive.py:_SMALL",
        "topi/schedule/sketch/derive.py:_TERMS_A_SHARE",
        "topi/schedule/sketch/derive.py:_WIDEST",
    ),
    "the form of a kernel on a device, in threads, pieces and steps of which any device has enough": (
        "backend/gpu/schedule/attention_cost.py:MOST_DEPTH",
        "backend/gpu/schedule/attention_cost.py:_ADDRESS",
        "backend/gpu/schedule/attention_cost.py:_BLOCKS",
        "backend/gpu/schedule/attention_cost.py:_ENOUGH_WARPS",
        "backend/gpu/schedule/attention_cost.py:_HELD_DEPTH",
        "backend/gpu/schedule/attention_cost.py:_KEYS",
        "backend/gpu/schedule/attention_cost.py:_LEAST_KEYS",
        "backend/gpu/schedule/attention_cost.py:_LIGHT_WIDTH",
        "backend/gpu/schedule/attention_cost.py:_OTHER_REGISTERS",
        "backend/gpu/schedule/attention_cost.py:_PARTS",
        "backend/gpu/schedule/attention_cost.py:_PLAIN_BLOCKS",
        "backend/gpu/schedule/attention_cost.py:_SCORE_INSTRUCTIONS",
        "backend/gpu/schedule/attention_cost.py:_SHARE",
        "backend/gpu/schedule/attention_cost.py:_SPARE_REGISTERS",
        "backend/gpu/schedule/attention_cost.py:_STAGES",
        "backend/gpu/schedule/attention_cost.py:_WIDE",
        "backend/gpu/schedule/attention_cost.py:_WIDE_SPARE_REGISTERS",
        "backend/gpu/schedule/injective.py:THREADS",
        "backend/gpu/schedule/injective.py:_VECTOR_BYTES",
        "backend/gpu/schedule/parts.py:COUNT_BYTES",
        "backend/gpu/schedule/parts.py:_SUM",
        "backend/gpu/schedule/product.py:_LEAST",
        "backend/gpu/schedule/product.py:_LEAST_STEPS",
        "backend/gpu/schedule/product.py:_LANES_OF_LOAD",
        "backend/gpu/schedule/product.py:_OTHER_REGISTERS",
        "backend/gpu/schedule/product.py:_PARTS",
        "backend/gpu/schedule/product.py:_PIECE",
        "backend/gpu/schedule/product.py:_RAGGED_TILES",
        "backend/gpu/schedule/product.py:_TILES",
        "backend/gpu/schedule/register_product.py:_LEAST",
        "backend/gpu/schedule/register_product.py:_MOST_SUMS",
        "backend/gpu/schedule/register_product.py:_OWN",
        "backend/gpu/schedule/register_product.py:_THREADS",
        "backend/gpu/schedule/register_product.py:_WIDE",
        "backend/gpu/schedule/recurrent.py:_BARRIER",
        "backend/gpu/schedule/recurrent.py:_PARTS",
        "backend/gpu/schedule/reduce.py:_FEW_TERMS",
        "backend/gpu/schedule/reduction.py:_STEP",
        "backend/gpu/schedule/reduce.py:_MANY_TERMS",
        "backend/gpu/schedule/reduce.py:_SHORT_ROW",
        "backend/gpu/schedule/reduce.py:_WARPS_TO_FILL",
        "backend/gpu/schedule/running.py:_SECTOR",
        "backend/gpu/schedule/running.py:_THREADS",
        "backend/gpu/schedule/sort.py:_ACCESSES",
        "backend/gpu/schedule/sort.py:_ANSWER",
        "backend/gpu/schedule/sort.py:_BESIDE",
        "backend/gpu/schedule/sort.py:_ELEMENTS",
        "backend/gpu/schedule/sort.py:_MOVES",
        "backend/gpu/schedule/sort.py:_OF_PAIR",
        "backend/gpu/schedule/sort.py:_POSITION",
        "backend/gpu/schedule/sort.py:_REGISTERS",
        "backend/gpu/schedule/sort.py:_THREADS",
        "backend/gpu/schedule/tensor_core.py:_GROUP",
        "backend/gpu/schedule/tensor_core.py:_LEAST_COLUMNS",
        "backend/gpu/schedule/tensor_core.py:_LEAST_DEPTH",
        "backend/gpu/schedule/tensor_core.py:_LEAST_ROWS",
        "backend/gpu/schedule/tensor_core.py:_PIECE",
        "backend/gpu/schedule/layout.py:_MOST_POINTS",
        "backend/gpu/schedule/tensor_core_cost.py:_DEPTHS",
        "backend/gpu/schedule/tensor_core_cost.py:_ENOUGH_WARPS",
        "backend/gpu/schedule/tensor_core_cost.py:_LEAST_STEPS",
        "backend/gpu/schedule/tensor_core_cost.py:_OTHER_REGISTERS",
        "backend/gpu/schedule/tensor_core_cost.py:_PARTS",
        "backend/gpu/schedule/tensor_core_cost.py:_STAGES",
        "backend/gpu/schedule/tensor_core_cost.py:_TILES",
        "backend/gpu/schedule/tensor_core_cost.py:_WIDE",
        "backend/gpu/schedule/tensor_core_cost.py:_WARPGROUP_DEPTH",
        "backend/gpu/schedule/tensor_core_cost.py:_WARPGROUP_STAGES",
        "backend/gpu/schedule/tensor_core_cost.py:_WARPGROUP_TILES",
        "backend/gpu/schedule/winograd_cost.py:FLOAT",
        "backend/gpu/schedule/winograd_cost.py:_THREADS",
        "tir/transform/bind_loose_loops.py:_THREADS",
        "tir/transform/lower_thread_reduction.py:_MOST_WARPS",
        "tir/transform/bind_shares.py:_SHARES",
    ),
    "a buffer between the host and a device, or what stands for a device's memory": (
        "runtime/gpu/cuda_context.py:_NAMES_KEPT",
        "runtime/gpu/cuda_staging.py:SLOT",
        "runtime/gpu/program.py:_KEPT",
        "runtime/gpu/program.py:_MOST_LAUNCHES",
        "runtime/gpu/emulation.py:_DYNAMIC_SHARED",
        "runtime/gpu/webgpu.py:_STAMPS",
        "runtime/gpu/webgpu.py:_NAMES_KEPT",
    ),
    "the shapes of a device's matrix instructions and its copies, by its instruction set": (
        "runtime/gpu/occupancy.py:_PARTS",
        "runtime/gpu/occupancy.py:_UNIT",
        "backend/gpu/schedule/product.py:_WITH_DP4A",
        "backend/gpu/schedule/tensor_core.py:_WITH_COPIES",
        "backend/gpu/schedule/attention_cost.py:_EXPONENTIALS",
        "backend/gpu/schedule/attention_cost.py:_LANES",
        "backend/gpu/schedule/attention_cost.py:_PRODUCT_CHAIN",
        "backend/gpu/schedule/attention_cost.py:_SHUFFLE_CHAIN",
        "tir/transform/fragments.py:LOADED",
        "relay/transform/layout/channels_last.py:_PIECE",
        "tir/transform/operand_tile.py:WIDTHS",
        "tir/transform/warpgroup_product.py:_LINE",
        "tir/transform/warpgroup_product.py:_ROWS",
        "tir/transform/warpgroup_product.py:_WARPS",
        "tir/transform/warpgroup_product.py:_WIDEST",
        "tir/transform/widen_accesses.py:_LEAST",
    ),
    "a range of integers or floats": (
        "codegen/llvm/byte_lookup.py:ENTRIES",
        "codegen/llvm/memory.py:_LOWEST",
        "codegen/llvm/saturation.py:_LARGEST",
        "relay/transform/quantize/fake_quantization_to_integer.py:_MOST",
        "relay/transform/quantize/fake_quantization_to_integer.py:_MOST_TERMS",
        "relay/transform/quantize/fake_quantization_to_integer.py:_ROUNDING",
        "relay/transform/quantize/quantized_floats.py:_WHOLE",
        "tir/transform/divide_by_constants.py:_BELOW",
        "tir/transform/divide_by_constants.py:_HALF",
        "tir/transform/divide_by_constants.py:_LEAST",
        "tir/transform/divide_by_constants.py:_MOST",
        "tir/transform/divide_by_constants.py:_NEIGHBOURS",
        "tir/transform/divide_by_constants.py:_WIDEST",
        "relay/transform/quantize/bfloat16_products.py:_LOWER_HALF",
        "backend/cpu/schedule/dense_blockwise.py:_BYTE_BITS",
        "relay/transform/layout/pack_blockwise.py:_BYTE_BITS",
        "relay/transform/memory/minimum_cut.py:UNCUT",
        "backend/gpu/schedule/attention_plain.py:_LOWEST",
        "backend/gpu/schedule/attention_tensor_core.py:_LOWEST",
        "backend/gpu/schedule/attention_tensor_core.py:_LOWEST_MASKED",
        "codegen/size_plan.py:_LARGEST_DIM",
        "codegen/source/share_functions.py:_LARGEST",
        "relay/transform/fuse/fuse_attention.py:_ABSORBING",
        "runtime/export.py:_MOST_WEIGHTS",
        "runtime/record.py:LARGEST",
        "runtime/shape_program.py:MOST_ELEMENTS",
        "tir/transform/flatten_buffers.py:LARGEST_INT32",
        "tir/transform/narrow_index.py:_LOW",
        "tir/transform/narrow_index.py:_HIGH",
    ),
    "the sizes of the standards of encryption and signatures": (
        "runtime/sealed/container.py:_KEY_BYTES",
        "runtime/sealed/container.py:_SIGNATURE",
        "runtime/sealed/container.py:_TAG",
    ),
    "the alignment that artifacts promise: whole vectors of any processor": (
        "relay/transform/memory/plan_memory.py:ALIGNMENT",
        "runtime/memory.py:ALIGNMENT",
        "tir/transform/plan_allocations.py:ALIGNMENT",
    ),
    "the stack of a thread, or its waking, which the operating system decides": (
        "codegen/llvm/statements.py:STACK_LIMIT",
        "runtime/threads.py:MAX_WORKERS",
        "runtime/vm/loop.py:_WORTH_MEETING",
        "codegen/native/pool.py:_SPIN_NANOSECONDS",
        "codegen/native/pool.py:_GRACE_NANOSECONDS",
        "codegen/native/pool.py:_OFTEN",
        "codegen/native/pool.py:_FUTEX_WAIT_PRIVATE",
        "codegen/native/pool.py:_FUTEX_WAKE_PRIVATE",
        "tir/transform/plan_allocations.py:STACK_BYTES",
    ),
    "how the system and Python's allocator hand out memory": (
        "runtime/memory.py:_HUGE_PAGE",
        "runtime/output_memory.py:_WORTH_KEEPING",
        "runtime/weights_sum.py:_BLOCK",
    ),
    "bookkeeping of the runtime": (
        "runtime/host_ops/regex.py:MOST_NESTED",
        "runtime/host_ops/regex.py:MOST_REPETITIONS",
        "runtime/host_ops/regex.py:MOST_STEPS",
        "runtime/host_ops/regex.py:_REMEMBERED",
        "runtime/native.py:INTERFACE",
        "runtime/record.py:DEEPEST",
        "runtime/record.py:LARGEST",
        "runtime/cpu/segment.py:_SMALL",
        "runtime/shape_program.py:KEPT_PLANS",
        "runtime/specializations.py:HOT_RUNS",
        "runtime/specializations.py:_COUNTED",
        "runtime/vm/flat.py:MOST_STEPS",
        "runtime/vm/hot.py:OFTEN",
        "runtime/vm/hot.py:_KEPT",
        "runtime/vm/hot.py:_MOST_REFUSED",
        "runtime/vm/hot.py:_OFTEN_AT_MOST",
        "runtime/vm/kinds.py:_DEEP",
        "runtime/vm/native_function.py:MOST_STEPS",
        "runtime/vm/native_function.py:_FIRST_TURNS",
        "runtime/vm/native_function.py:_MOST_BYTES",
        "runtime/vm/native_function.py:_PATIENCE",
        "runtime/vm/loop.py:FIRST_BYTES",
        "runtime/vm/loop.py:_MANY",
        "runtime/vm/loop.py:_MOST",
        "runtime/vm/loop.py:_DONE",
        "runtime/vm/loop.py:_PAIRS",
        "runtime/vm/machine.py:MAX_FRAMES",
    ),
    "levels of quantized values": (
        "relay/transform/quantize/int8_products.py:_LEAST",
        "relay/transform/quantize/int8_products.py:_MOST",
        "relay/transform/quantize/int8_products.py:_UNSIGNED",
        "relay/transform/quantize/partition_conversions.py:_SUM_BITS",
        "relay/transform/quantize/quantize.py:_LEVELS",
        "relay/transform/quantize/quantize_to_shifts.py:_HIGH",
        "relay/transform/quantize/quantize_to_shifts.py:_LOW",
        "relay/transform/quantize/quantize_to_shifts.py:_MULTIPLIER",
        "relay/transform/quantize/quantize_to_shifts.py:_SUM_BITS",
        "relay/transform/quantize/pair_order.py:_MOST",
        "relay/transform/quantize/pair_order.py:_TOGETHER",
        "relay/transform/quantize/thresholds.py:_BINS",
        "relay/transform/quantize/thresholds.py:_LEVELS",
    ),
    "an optimization level": (
        "relay/transform/manager/pass_manager.py:DEFAULT_OPT_LEVEL",
        "relay/transform/passes.py:REQUIRED",
    ),
    "a ratio or a count of shares, not of vectors; results must not depend on the workers": (
        "relay/transform/fuse/recompute.py:_SMALL",
        "relay/transform/layout/weight_gradients.py:_FILLED",
        "tir/transform/shift_last_tile.py:FEW",
        "backend/cpu/schedule/common.py:_ENOUGH_SHARES",
        "backend/cpu/schedule/dense.py:_FEW_BATCHES",
        "backend/cpu/schedule/dot_product.py:_FEW_PANELS",
        "backend/cpu/schedule/reduce.py:_ENOUGH_TILES",
        "backend/cpu/schedule/reduce.py:_MANY_ROWS",
        "backend/cpu/schedule/injective.py:_LINES_OF_LONG_ROW",
        "backend/cpu/schedule/injective.py:_FEW_ROWS",
        "backend/cpu/schedule/rows.py:_FEW_ROWS",
    ),
    "bounds of a search space: how far it goes, not what is taken": (
        "backend/cpu/schedule/conv2d_backward_weight.py:_CHANNELS",
        "backend/cpu/schedule/conv2d_backward_weight.py:_FILTERS",
        "backend/cpu/schedule/conv2d_cost.py:_BLOCKS",
        "backend/cpu/schedule/conv2d_cost.py:_FEW_ROWS",
        "backend/cpu/schedule/conv2d_cost.py:_JOINED_BLOCKS",
        "backend/cpu/schedule/conv2d_cost.py:_POSITIONS",
        "backend/cpu/schedule/conv2d_cost.py:_SEVERAL",
        "backend/cpu/schedule/conv2d_nchw_cost.py:_FILTERS",
        "backend/cpu/schedule/conv2d_nchw_cost.py:_VECTORS",
        "backend/cpu/schedule/depthwise_cost.py:_BAND",
        "backend/cpu/schedule/depthwise_cost.py:_PLAIN_ACCUMULATORS",
        "backend/cpu/schedule/depthwise_cost.py:_PLAIN_VECTORS",
        "backend/cpu/schedule/depthwise_cost.py:_TILE_COLUMNS",
        "relay/transform/quantize/bfloat16_products.py:_LEAST_CHANNELS",
        "backend/cpu/schedule/layout.py:CHANNEL_BLOCKS",
        "backend/cpu/schedule/attention_cost.py:_BLOCK_ROWS",
        "backend/cpu/schedule/attention_cost.py:_PANEL_VECTORS",
        "backend/cpu/schedule/narrow_attention.py:_MOST_ROWS",
        "backend/cpu/schedule/narrow_attention.py:_PANEL_VECTORS",
        "backend/cpu/schedule/narrow_attention.py:_SCORE_PASSES",
        "backend/cpu/schedule/narrow_attention.py:_TILE_LATENCY",
        "backend/cpu/schedule/narrow_attention.py:_ROUNDED",
        "backend/cpu/schedule/narrow_attention.py:_TRANSPOSED",
        "backend/cpu/schedule/grouped_conv2d.py:_LEAST_PIECE",
        "backend/cpu/schedule/fused_depthwise.py:_BLOCKS",
        "backend/cpu/schedule/fused_depthwise.py:_POSITIONS",
        "backend/cpu/schedule/bitserial_cost.py:_TILE_PIXELS",
        "backend/cpu/schedule/dense_blockwise_cost.py:_TILE_ROWS",
        "backend/cpu/schedule/dense_blockwise_cost.py:_LOWEST",
        "backend/cpu/schedule/dense_blockwise_cost.py:_VECTORS",
        "backend/cpu/schedule/product_spaces.py:_DEPTH_BLOCKS",
        "backend/cpu/schedule/product_spaces.py:_LOWEST",
        "backend/cpu/schedule/product_spaces.py:_MATRIX_ROWS",
        "backend/cpu/schedule/product_spaces.py:_ORDERED_UNITS",
        "backend/cpu/schedule/product_spaces.py:_SPARE_LOADS",
        "backend/cpu/schedule/tiled_conv2d.py:FLAT",
        "backend/cpu/schedule/tiled_conv2d.py:_PIXELS",
        "backend/cpu/schedule/product_spaces.py:_TILE_ROWS",
        "backend/cpu/schedule/product_spaces.py:_VECTORS",
        "backend/cpu/schedule/product_spaces.py:_WIDEST",
        "backend/cpu/schedule/recurrent_cost.py:_TILE_ROWS",
        "backend/cpu/schedule/recurrent_cost.py:_WIDEST",
        "backend/cpu/schedule/winograd_cost.py:_TILES_PER_GROUP",
    ),
    "a ratio by which values are ranked for being computed twice; bits must not depend on the processor": (
        "relay/transform/memory/rematerialize.py:_OPERATIONS_A_BYTE",
    ),
    "exponents of a mean, in the cost of what overlaps": (
        "topi/schedule/cost.py:_BEYOND",
        "topi/schedule/cost.py:_NEAR",
        "topi/schedule/cost.py:_WITHIN",
        "backend/cpu/schedule/tile.py:_BALANCE",
    ),
    "how much better by the estimates a change must be, whose error is that of the model": (
        "relay/transform/layout/layout_plan.py:_MARGIN",
        "relay/transform/layout/layout_plan.py:_TOGETHER",
        "backend/cpu/schedule/channel_padding.py:_WORTH",
        "backend/cpu/schedule/product.py:WORTH_ROUNDING",
        "backend/cpu/schedule/grouped_conv2d.py:_LEAST_OF_USE",
        "backend/cpu/schedule/layout.py:_MARGIN",
        "backend/gpu/schedule/layout.py:_MARGIN",
        "backend/cpu/schedule/product_spaces.py:_FILLED",
        "backend/cpu/schedule/product_spaces.py:_WORTH_FILLING",
        "backend/cpu/schedule/recurrent_cost.py:_GOOD_ENOUGH",
        "topi/schedule/space.py:_ROUNDING",
    ),
    "part of the definition of an operator, or of a statistic": (
        "relay/transform/quantize/thresholds.py:_SHARE",
        "runtime/host_ops/resample.py:TIE",
        "runtime/host_ops/sampling.py:_CUBIC",
    ),
    "sizes that an unknown size is likely to have": (
        "backend/cpu/schedule/product.py:_ROWS_OF_ONE",
        "backend/cpu/schedule/product.py:_SHORT_RUNS",
        "backend/cpu/schedule/recurrent_cost.py:_SYMBOLIC_ROWS",
        "backend/cpu/schedule/winograd_cost.py:_LIKELY_SCALES",
    ),
    "instructions that an algorithm takes, which are the same on every processor": (
        "backend/cpu/rules.py:_LOOKUP",
        "relay/transform/quantize/lookup_tables.py:_FUNCTION",
        "relay/transform/quantize/bfloat16_products.py:_TERMS",
        "backend/cpu/schedule/conv2d_cost.py:SHUFFLES",
        "backend/cpu/schedule/conv2d_cost.py:_ASKING",
        "backend/cpu/schedule/bitserial_cost.py:_CODES",
        "backend/cpu/schedule/bitserial_cost.py:_JOINING",
        "backend/cpu/schedule/bitserial_cost.py:_PIXEL",
        "backend/cpu/schedule/bitserial_cost.py:_PLANE",
        "backend/cpu/schedule/bitserial_cost.py:_TABLES",
        "backend/cpu/schedule/tiled_conv2d.py:_SUMS_IN_MEMORY",
        "backend/cpu/schedule/dense_blockwise_cost.py:_JOINING",
        "backend/cpu/schedule/dense_blockwise_cost.py:_PRODUCTS",
        "backend/cpu/schedule/dense_blockwise_cost.py:_UNPACKING",
        "backend/cpu/schedule/product.py:_CLEARED",
        "backend/cpu/schedule/product.py:_PAIRED",
        "backend/cpu/schedule/product.py:WITH_ADDING_UP",
        "backend/cpu/schedule/half_intrin.py:_PAIR",
        "backend/cpu/schedule/tile_intrin.py:_DATA",
        "backend/cpu/schedule/tile_intrin.py:_WEIGHTS",
        "backend/gpu/schedule/attention_cost.py:_TRIPS",
        "backend/gpu/schedule/parts.py:_ANSWERS",
        "backend/gpu/schedule/parts.py:_TRIPS",
        "backend/gpu/schedule/winograd_cost.py:_TRANSFORMS",
        "backend/gpu/schedule/winograd_cost.py:_TRIPS",
    ),
    "the narrowest vector of any processor, and blocks of as many elements": (
        "backend/cpu/schedule/transpose.py:_LEAST",
        "topi/schedule/stages.py:NARROWEST",
    ),
    "how exact sums are, the same on every processor": (
        "backend/cpu/schedule/half_intrin.py:_ADDED",
        "tir/transform/block_sums.py:_MOST_ELEMENTS",
        "tir/transform/block_sums.py:_SPLITS_OF_SYMBOLIC",
    ),
    "lengths of vectors and words, and largest exact numbers, that a language or an instruction set defines": (
        "codegen/source/float_tiles.py:_LANES",
        "codegen/source/wgsl.py:_WORD",
        "runtime/web/description.py:_LARGEST",
        "tir/transform/subgroup_reduction.py:_FEWEST",
        "tir/transform/subgroup_reduction.py:_MOST",
    ),
    "patience with programs beside this process, and the first of their versions that need no flag": (
        "runtime/web/process.py:_END_SECONDS",
        "runtime/web/process.py:_LOOK_SECONDS",
        "runtime/web/process.py:_NODE_RELAXED",
    ),
    "offsets in a structure that our own code lays out": ("runtime/web/in_wasmtime.py:_ONLY",),
    "calls and components of the operating system": (
        "runtime/processor.py:ARCH_PRCTL",
        "runtime/processor.py:REQUEST_PERMISSION",
        "runtime/processor.py:TILE_DATA",
    ),
    "sizes of blocks for which rounds of shuffles are written": ("tir/transform/transpose_registers.py:_SIZES",),
}

#: What is still fitted to one processor, in templates of convolutions, products and sums. This list may only become
#: shorter. Half of it stood within functions, out of this test's sight, until it looked there too.
FITTED = {
    "backend/cpu/schedule/common.py:BLOCKS_AHEAD",
    "backend/cpu/schedule/depthwise_conv2d.py:_COLUMNS",
    "backend/cpu/schedule/fused_depthwise.py:_BAND_SHARE",
    "backend/cpu/schedule/fused_depthwise.py:MIN_BANDS",
    "backend/cpu/schedule/fused_depthwise.py:_MOST_ROWS",
    "backend/cpu/schedule/layout.py:_PLAIN_DEPTHWISE",
    "backend/cpu/schedule/pool.py:_PORTS",
    "backend/cpu/schedule/pool.py:_REGISTERS",
    "backend/cpu/schedule/reduce.py:_LEAST_VECTORS",
    "backend/cpu/schedule/reduce.py:_REGISTERS_PART",
    "backend/cpu/schedule/winograd_cost.py:_PRODUCTS_PART",
    "backend/cpu/schedule/winograd_cost.py:_TILES_PART",
}


def modules(folders: tuple[str, ...]) -> Iterator[tuple[str, ast.Module]]:
    """Path within the package, and tree, of every module of the folders that has to give reasons."""
    for folder in folders:
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            name = path.relative_to(PACKAGE).as_posix()
            if name not in FORMATS:
                yield name, ast.parse(path.read_text())


def numbers(node: ast.AST) -> list[float]:
    """The numbers in an expression that are more than two in size."""
    return [
        x.value
        for x in ast.walk(node)
        if isinstance(x, ast.Constant) and type(x.value) in (int, float) and abs(x.value) > 2
    ]


def fractions(node: ast.AST) -> list[float]:
    """The floats in an expression that are no whole numbers: shares, margins, factors."""
    floats = [x.value for x in ast.walk(node) if isinstance(x, ast.Constant) and type(x.value) is float]
    return [value for value in floats if not value.is_integer()]


def small(node: ast.AST) -> list[float]:
    """The twos and whole floats in an expression, but for 0.0 and 1.0, which start sums and products."""
    values = [x.value for x in ast.walk(node) if isinstance(x, ast.Constant) and type(x.value) in (int, float)]
    return [value for value in values if value == 2 or (type(value) is float and value.is_integer() and abs(value) > 1)]


def numeric_constants(tree: ast.Module, chooses: bool = False) -> list[str]:
    """Names that the module gives numbers, or tuples of them, at its top; `small` ones too where it `chooses`."""
    found = []
    for statement in tree.body:
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            parts = [(target, statement.value)]
            if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
                parts = list(zip(target.elts, statement.value.elts, strict=True))
            found += [
                ast.unparse(name)
                for name, value in parts
                if _is_arithmetic(value) and (numbers(value) or fractions(value) or (chooses and small(value)))
            ]
    return found


def tuned_in_functions(tree: ast.Module) -> list[int]:
    """Lines of functions with a fraction, a multiple or a part of a machine's figure, or a comparison by a number.

    What an array's rank is compared by is no such number, and neither are bits of a data type and the four bytes of an
    element in a line or page.
    """
    bodies = [s for function in ast.walk(tree) if isinstance(function, ast.FunctionDef) for s in function.body]
    found = set()
    for x in (x for statement in bodies for x in ast.walk(statement)):
        if isinstance(x, ast.Constant) and fractions(x):
            found.add(x.lineno)
        scales = ast.Mult | ast.Div | ast.FloorDiv
        if isinstance(x, ast.BinOp) and isinstance(x.op, scales):
            factors = [x.left, x.right] if isinstance(x.op, ast.Mult) else [x.right]
            of_machine = any(_is_figure(side) and side.attr not in ("line", "page") for side in (x.left, x.right))
            if of_machine and any(isinstance(side, ast.Constant) and side.value not in (0, 1) for side in factors):
                found.add(x.lineno)
        if isinstance(x, ast.Compare) and not re.search(r"\b(len|ndim|bits|itemsize)\b", ast.unparse(x)):
            found |= {x.lineno for side in (x.left, *x.comparators) if isinstance(side, ast.Constant) and numbers(side)}
    return sorted(found)


def _is_figure(node: ast.AST) -> TypeGuard[ast.Attribute]:
    """True for an attribute of a machine or target, such as `target.machine.fma_latency`."""
    owner = node.value if isinstance(node, ast.Attribute) else None
    name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
    return name in ("machine", "target")


def _is_arithmetic(value: ast.AST) -> bool:
    """True for numbers, sums and products of them, and tuples: a table or a call says itself what it is."""
    plain = ast.Constant | ast.BinOp | ast.UnaryOp | ast.Tuple | ast.operator | ast.unaryop | ast.Load
    return all(isinstance(x, plain) for x in ast.walk(value))


def large_powers(tree: ast.Module) -> list[int]:
    """Lines of functions where a power of two from 512 on stands."""
    found = set()
    bodies = [s for function in ast.walk(tree) if isinstance(function, ast.FunctionDef) for s in function.body]
    for x in (x for statement in bodies for x in ast.walk(statement)):
        if isinstance(x, ast.Constant) and type(x.value) is int and x.value >= 512 and x.value.bit_count() == 1:
            found.add(x.lineno)
        if isinstance(x, ast.BinOp) and isinstance(x.op, ast.LShift) and _is_arithmetic(x) and numbers(x.right):
            found.add(x.lineno)
    return sorted(found)


def vector_divisions(tree: ast.Module) -> list[int]:
    """Lines where somebody works out the lanes of a vector alone, in place of `Machine.lanes`."""
    return sorted(
        x.lineno
        for x in ast.walk(tree)
        if isinstance(x, ast.BinOp)
        and isinstance(x.op, ast.FloorDiv)
        and any(isinstance(y, ast.Attribute) and y.attr == "vector_bits" for y in ast.walk(x))
    )


def test_every_constant_of_a_module_has_a_reason() -> None:
    known = {name for names in ALLOWED.values() for name in names}
    found = {
        f"{path}:{name}"
        for path, tree in modules(FOLDERS)
        for name in numeric_constants(tree, path.startswith(SCHEDULES))
    }
    assert not found - known - FITTED, "take it from target.machine, or say here why no processor changes it"
    assert not (known | FITTED) - found, "gone: take it out of the list"


def test_functions_hold_no_sizes_of_caches() -> None:
    limit_of_time = {"relay/transform/simplify/algebra_rules.py"}
    found = {path: lines for path, tree in modules(CHOOSING) if (lines := large_powers(tree))}
    assert set(found) <= limit_of_time, found


def test_functions_that_choose_schedules_hold_no_tuned_numbers() -> None:
    found = {path: lines for path, tree in modules(SCHEDULES) if (lines := tuned_in_functions(tree))}
    assert not found, "give it a name at the top of the module, with the reason, or take it from the machine"


def test_lanes_are_worked_out_once() -> None:
    texts = {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in PACKAGE.rglob("*.py")}
    trees = {path: ast.parse(text) for path, text in texts.items() if "vector_bits" in text}
    found = {path: lines for path, tree in trees.items() if (lines := vector_divisions(tree))}
    assert set(found) == {"machine.py"}, found


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("_L2 = 1 << 20", ["_L2"]),
        ("_LINE, WAYS = 64, 8", ["_LINE", "WAYS"]),
        ("LIMIT: int = 16 * 1024", ["LIMIT"]),
        ("TILES = (28, 14)", ["TILES"]),
        ("_LEAST, _MOST = 1, 7", ["_MOST"]),
        ("COST = {'exp': 14}", []),
        ("_STALLED = 0.6", ["_STALLED"]),
        ("_KEPT, FEW = 0.75, 1.0", ["_KEPT"]),
        ("FEW = 2", []),
        ("TEXT = 'a 64'", []),
    ],
)
def test_the_scan_sees_constants(source: str, names: list[str]) -> None:
    assert numeric_constants(ast.parse(source)) == names


def test_the_scan_sees_sizes_within_functions() -> None:
    body = "def f(target):\n    x = 4096\n    y = 1 << 15\n    z = 100\n    return target.vector_bits // 32"
    tree = ast.parse(body)
    assert large_powers(tree) == [2, 3]
    assert vector_divisions(tree) == [5]


def test_the_scan_sees_numbers_that_choose() -> None:
    assert numeric_constants(ast.parse("_NEAR, FEW, NONE = 2.0, 2, 0.0"), chooses=True) == ["_NEAR", "FEW"]
    lines = [
        "a = rows * (0.5 + x)", "b = target.l2 // 4", "c = 2 * self.target.machine.fma_latency", "d = batches < 4",
        "e = 1.0 * rows", "f = 4 / machine.stores", "g = len(shape) > 4", "h = rows < 2", "i = 4 * rows",
    ]  # fmt: skip
    tree = ast.parse("def f():\n" + "\n".join(f"    {line}" for line in lines))
    assert tuned_in_functions(tree) == [2, 3, 4, 5]
