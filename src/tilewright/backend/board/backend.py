"""Boards: models as C99 for processors without a system (`target.microcontrollers`).

Integer models keep the bytes that they have in the file: images with channels last, weights packed as kernels read
them, sums in registers (`byte_products.py`). Products of floats are register tiles as well (`float_products.py`). All
else is compiled as for any processor, one element at a time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilewright import te
from tilewright.backend.board.byte_layers import byte_layers
from tilewright.backend.board.byte_products import byte_products
from tilewright.backend.board.channels_last import channels_last
from tilewright.backend.board.fixed_point import fixed_point
from tilewright.backend.board.float_products import float_products
from tilewright.backend.board.high_halves import high_halves
from tilewright.backend.board.pad_rows import pad_rows
from tilewright.backend.board.schedule.byte_conv import BYTE_CONV, block_of
from tilewright.backend.board.schedule.byte_depthwise import BYTE_DEPTHWISE
from tilewright.backend.board.schedule.byte_layers import is_layer, layer_call
from tilewright.backend.board.schedule.float_depthwise import FLOAT_DEPTHWISE
from tilewright.backend.board.schedule.float_products import FLOAT_CONV, FLOAT_DENSE, float_block
from tilewright.backend.c.backend import SourceBackend
from tilewright.backend.kernels import CompiledKernels, Task
from tilewright.backend.lower import lower_task
from tilewright.backend.workload_key import workload_key
from tilewright.codegen.kernel_code import for_c
from tilewright.codegen.source.byte_layers import layer_functions
from tilewright.codegen.source.byte_tiles import tile_functions
from tilewright.codegen.source.c import EmittedSource, emit_static_c
from tilewright.codegen.source.float_tiles import float_tile_functions
from tilewright.codegen.source.pairs import pair_functions
from tilewright.codegen.source.rows import row_functions
from tilewright.errors import TargetError, UnsupportedError
from tilewright.records.entry import TaskKey
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import tensor_types
from tilewright.relay.transform.manager.graph_pass import GraphPass
from tilewright.relay.transform.passes import PIPELINE
from tilewright.relay.transform.simplify.simplify_expr import simplify_expr
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.model import Model
from tilewright.tir.overlaps import overlaps
from tilewright.tir.stmt import PrimFunc
from tilewright.topi.schedule.choice import Choice
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.stages import computes
from tilewright.topi.schedule.template import Template

_TEMPLATES = {
    template.tag: template for template in (BYTE_CONV, BYTE_DEPTHWISE, FLOAT_CONV, FLOAT_DENSE, FLOAT_DEPTHWISE)
}


class BoardBackend(SourceBackend):
    """C for a board's processor."""

    #: The widest loads of such processors.
    alignment = 8

    def check(self, measured: bool = False) -> None:
        """Models are written as C here, and never run."""
        if measured:
            raise TargetError(f"tuning and specializing run the model here, and {self.target} is a board's processor")

    def pipeline(self) -> tuple[GraphPass, ...]:
        """That of processors, with products of bytes as boards compute them."""
        passes = list(PIPELINE)
        at = next(i for i, one in enumerate(passes) if one.name == "dot_products")
        passes[at] = GraphPass("channels_last", 0, "", channels_last)
        behind = [
            GraphPass("byte_products", 0, "", self._byte_products),
            GraphPass("float_products", 0, "", self._float_products),
            GraphPass("fixed_point", 0, "", fixed_point),
        ]
        if self.target.supports("mve"):
            moves = GraphPass("simplify_moves", 0, "", simplify_expr)
            behind += [moves, GraphPass("byte_layers", 0, "", byte_layers)]
        passes[at + 1 : at + 1] = behind
        return tuple(passes)

    def _byte_products(self, mod: IRModule) -> IRModule:
        return byte_products(
            mod, self.target.supports("dsp"), lambda pixels, channels: block_of(pixels, channels, self.target)
        )

    def _float_products(self, mod: IRModule) -> IRModule:
        return float_products(mod, lambda pixels, channels: float_block(pixels, channels, self.target))

    def channel_block(self, channels: int) -> int | None:
        """None: there are no vectors to fill."""
        return None

    # ------------------------------------------------------------------------------------------------------ schedules
    def schedule(self, outs: list[te.Tensor], config: Mapping[str, Any] | None = None) -> te.Schedule:
        """By the templates of boards, else by those of processors."""
        found = _template_of(outs)
        if found is None:
            return super().schedule(outs, config)
        (template, anchor), space = found, self.search_space(outs)
        assert space is not None
        s = te.create_schedule([out.op for out in outs])
        template.schedule(s, anchor, outs[0], self.target, space.default if config is None else space.config(config))
        return s

    def lower_stages(self, s: te.Schedule, args: Sequence[Any], name: str) -> Iterator[tuple[str, PrimFunc]]:
        """Of a layer of bytes those of a call, where the target has a function for it."""
        out, *others = (tensor for op in s.outputs for tensor in op.outputs)
        if others or not is_layer(out) or not self.target.supports("mve"):
            return super().lower_stages(s, args, name)
        made = layer_call(out)
        return super().lower_stages(te.create_schedule([made.op]), [made if a is out else a for a in args], name)

    def search_space(self, outs: list[te.Tensor]) -> ConfigSpace | None:
        """Of the template."""
        found = _template_of(outs)
        if found is None:
            return super().search_space(outs)
        template, anchor = found
        return template.ranked(template.workload(anchor, outs[0]), self.target)

    def task_key(self, outs: list[te.Tensor]) -> TaskKey | None:
        """Of the template."""
        found = _template_of(outs)
        return super().task_key(outs) if found is None else workload_key(*found, outs)

    def choice(self, outs: list[te.Tensor], config: Mapping[str, Any] | None = None) -> Choice:
        """The template and its configuration, with instructions at the processor's clock as the time."""
        found = _template_of(outs)
        if found is None:
            return super().choice(outs, config)
        space = self.search_space(outs)
        assert space is not None
        chosen = space.default if config is None else space.config(config)
        cost = space.cost(chosen)
        time = round(self.target.machine.seconds(cost.cycles) * 1e6, 2)
        return Choice(found[0].tag, chosen.items_, time, time, cost.bound, (("arithmetic", time),))

    # ----------------------------------------------------------------------------------------------------------- code
    def compile(self, tasks: Sequence[Task]) -> CompiledKernels:
        """Kernels whose results may lie over inputs that they read last."""
        start = time.perf_counter()
        funcs, found = [], {}
        for task in tasks:
            (func,) = for_c([pad_rows(lower_task(task.function, task.name, self))], self.target)
            inputs = sum(len(tensor_types(param.checked_type)) for param in task.function.params)
            outputs = len(tensor_types(task.function.body.checked_type))
            found[task.name] = overlaps(func, task.data, inputs, outputs)
            shared = {i for i, _ in found[task.name]} | {inputs + o for _, o in found[task.name]}
            funcs.append(func.with_body(func.body, overlapping=frozenset(shared)))
        return replace(self._compiled(funcs, time.perf_counter() - start), overlaps=found)

    def load(self, manifest: Manifest, code: bytes, weights: Any, threads: int | None = None) -> Model:
        """Refuse: such a model is C source, and nothing else."""
        raise UnsupportedError(
            f"models for {self.target} are written as C source: `tilewright compile -o model.c`, or "
            "tilewright.compile.export_source"
        )

    def emit(self, funcs: Sequence[PrimFunc], lines: bool | None = None) -> EmittedSource:
        """Static functions, behind those on pairs that they use."""
        made = emit_static_c([high_halves(func) for func in for_c(funcs, self.target)])
        text = tile_functions(made.text) + layer_functions(made.text) + float_tile_functions(made.text) + made.text
        return EmittedSource(pair_functions(text) + row_functions(text) + text, made.messages)


def _template_of(outs: list[te.Tensor]) -> tuple[Template, te.Tensor] | None:
    """The template of the one anchor that boards have one for."""
    found = [
        (_TEMPLATES[name], tensor)
        for tensor in computes(outs)
        for name in tensor.op.tag.split(",")
        if name in _TEMPLATES
    ]
    return found[0] if len(found) == 1 and len(outs) == 1 else None
