"""Attention as one kernel: no score is ever written to memory.

    blockIdx: rows of queries of a head                 on tensor cores `attention_tensor_core`, else `attention_plain`
    a second kernel, where few rows meet many keys      adds up what blocks have of their parts of the keys

The online softmax is no schedule of the computation's stages, so that loops written by hand replace them.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright import te
from tilewright.backend.gpu.schedule.attention_cost import (
    AttentionWorkload,
    attention_cost,
    attention_space,
    has_attention_kernel,
    on_cores,
    plain_tiling,
    tensor_core_tiling,
)
from tilewright.backend.gpu.schedule.attention_parts import Parts, parts_kernel
from tilewright.backend.gpu.schedule.attention_plain import PlainAttention
from tilewright.backend.gpu.schedule.attention_problem import Problem, Stages, find_attention, problem_of
from tilewright.backend.gpu.schedule.attention_tensor_core import TensorCoreAttention
from tilewright.backend.gpu.schedule.machine import machine_of
from tilewright.target import DeviceTarget
from tilewright.te.axis_attr import first_loops
from tilewright.te.extern import ExternOp
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Expr, IntImm
from tilewright.tir.stmt import Stmt, seq
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.stages import computes, shape_of
from tilewright.topi.schedule.template import Template
from tilewright.topi.tag import ATTENTION as TAG


def fits_attention(outs: list[te.Tensor], target: DeviceTarget) -> Stages | None:
    """The stages of the attention that `outs` is; None where it is none, or has sizes that no block has room for."""
    stages = find_attention(outs)
    if stages is None or te.index_dtype() != "int32":
        return None
    fixed = all(isinstance(t.shape[i], IntImm) for t in (stages.key, stages.value) for i in (1, 3))
    depth, width = shape_of(stages.key)[3], shape_of(stages.value)[3]
    return stages if fixed and has_attention_kernel(depth, width, str(stages.query.dtype), target) else None


def workload(anchor: te.Tensor, out: te.Tensor) -> AttentionWorkload:
    """The sizes of the attention whose second product is `anchor`."""
    stages = find_attention([out])
    assert stages is not None and stages.product.op is anchor.op
    batch, heads, rows, depth = shape_of(stages.query)
    _, shared, columns, width = shape_of(stages.value)
    fixed_rows, fixed_columns = (isinstance(t.shape[2], IntImm) for t in (stages.query, stages.value))
    return AttentionWorkload(
        batch, heads, heads // shared, rows, columns, depth, width, str(stages.query.dtype),
        stages.query.dtype.itemsize, fixed_rows, fixed_columns, anchor.op.attrs["causal"],
    )  # fmt: skip


def schedule_attention(s: te.Schedule, anchor: te.Tensor, out: te.Tensor, target: DeviceTarget, config: Config) -> None:
    """Replace the stages of the attention by loops, as `config` of `attention_space` has them."""
    stages = find_attention([out])
    assert stages is not None and stages.product.op is anchor.op
    inputs = list(dict.fromkeys(t for made in computes([out]) for t in made.op.input_tensors
                                if isinstance(t.op, te.PlaceholderOp)))  # fmt: skip
    buffers = {t: Buffer(t.name, t.shape, t.dtype) for t in inputs}
    result = Buffer(out.name, out.shape, out.dtype)
    body = _loops(problem_of(stages, buffers, result), workload(anchor, out), target, config)
    made = ExternOp(out.op.name, inputs, list(buffers.values()), [result], body, TAG, {}, out.op.position)
    stage = s[out]
    stage.op = made
    stage.leaf_iter_vars, stage.attrs = first_loops(made)
    s.stage_map[made] = stage
    s.stages = [one for one in s.stages if isinstance(one.op, te.PlaceholderOp) or one is stage]


def _loops(problem: Problem, facts: AttentionWorkload, target: DeviceTarget, config: Config) -> Stmt:
    """The kernels of a configuration."""
    kernel: TensorCoreAttention | PlainAttention
    exponential: Callable[[Expr], Expr]
    if on_cores(config):
        tiling = tensor_core_tiling(config, facts, machine_of(target))
        parts = _parts(problem, config["parts"], tiling.stack)
        kernel = TensorCoreAttention(problem, tiling, parts)
        exponential, threads, stack = kernel.exponential, tiling.threads, tiling.stack
    else:
        plain = plain_tiling(config, facts)
        parts = _parts(problem, config["parts"], plain.stack)
        kernel = PlainAttention(problem, plain, parts)
        exponential, threads, stack = _exponential, plain.threads, plain.stack
    body = kernel.statement()
    return body if parts is None else parts.around(seq(body, parts_kernel(problem, parts, stack, threads, exponential)))


def _exponential(x: Expr) -> Expr:
    return op.exp(x)


def _parts(problem: Problem, count: int, stack: int) -> Parts | None:
    if count == 1:
        return None
    rows = problem.rows * stack if isinstance(problem.rows, int) else op.convert(problem.rows) * stack
    return Parts.of(problem, count, problem.heads // stack, rows)


ATTENTION = Template(TAG, workload, attention_space, attention_cost, schedule_attention)  # type: ignore[arg-type]
