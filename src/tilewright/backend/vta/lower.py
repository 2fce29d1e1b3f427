"""Regions of a graph to programs: the external code generator "vta"; a region becomes the calls of `operators.py`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tilewright.backend.vta import layers
from tilewright.backend.vta.operators import program_calls
from tilewright.backend.vta.patterns import PATTERNS, Piece, constants_of, read_piece, weight_of
from tilewright.backend.vta.settings import Settings
from tilewright.relay.ir.expr import Call, Expr, Function, Tuple
from tilewright.relay.ir.type import FuncType
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import post_order, substitute
from tilewright.relay.op.cost import flops
from tilewright.relay.transform.partition.external import ExternalCodegen, Predicate, always, in_place
from tilewright.relay.transform.simplify.make import is_call
from tilewright.vta.network.network import Compiled, Network, Tensor
from tilewright.vta.schedule.alu import Pool
from tilewright.vta.schedule.layout import Array


def compile_region(function: Function, settings: Settings) -> Compiled | None:
    """The program of a region, its operands in the order of the parameters; None where nothing is to be computed."""
    network = Network(settings.config, settings.threads)
    region = _Region(network, function)
    body = function.body
    results = body.fields if isinstance(body, Tuple) else (body,)
    tensors = [region.tensor(value) for value in results]
    if not network.layers:
        return None
    compiled = network.build(tensors)
    for known, value in zip(compiled.plan["outputs"], results):
        known["result"] = [int(n) for n in tensor_type_of(value).shape]
    return compiled


class _Region:
    """The tensors of a region's values, made on first use."""

    def __init__(self, network: Network, function: Function) -> None:
        self.network = network
        self.operands: dict[Expr, int] = {param: n for n, param in enumerate(function.params)}
        self.made: dict[Expr, Tensor] = {}
        for node in post_order(function.body):
            if isinstance(node, Call):
                self.made[node] = self._layer(node)

    def tensor(self, value: Expr) -> Tensor:
        """The tensor of a value; an operand when it is first read as it stands."""
        if value not in self.made:
            self.made[value] = self.network.image(layers.four(tensor_type_of(value)), self.operands[value])
        return self.made[value]

    def _layer(self, call: Call) -> Tensor:
        if isinstance(call.op, Function):
            return self._piece(call)
        if is_call(call, "nn.max_pool2d"):
            return self.network.pool(
                self.tensor(call.args[0]), layers.max_pool(self.network.config, call), (), call.span or "max_pool2d"
            )
        return self.tensor(call.args[0])

    def _piece(self, call: Call) -> Tensor:
        function, constants = constants_of(call)
        piece = read_piece(function.body, constants)
        assert piece is not None, "the pattern's check has read it"
        bound: dict[Expr, Expr] = dict(zip(function.params, call.args))
        inputs = [bound.get(value, value) for value in piece.inputs]
        if is_call(piece.core, "nn.conv2d", "nn.dense"):
            return self._product(piece, weight_of(piece, constants), inputs[0])
        if is_call(piece.core, "sum"):
            pool: Pool = layers.whole_image(self.network.config, tensor_type_of(inputs[0]))
            return self.network.pool(self.tensor(inputs[0]), pool, piece.steps, call.span or "sum")
        left, right = (self.tensor(value) for value in inputs)
        shifts = (piece.shifts[0], piece.shifts[1])
        return self.network.add(left, right, shifts, piece.steps, piece.core.span or "add")

    def _product(self, piece: Piece, weight: Array, data: Expr) -> Tensor:
        if data in self.operands and layers.by_patches(self.network.config, piece.core, weight):
            return layers.add_product_of_patches(self.network, piece, weight, self.operands[data])
        return layers.add_product(self.network, piece, weight, self.tensor(data))


def codegen(settings: Settings) -> ExternalCodegen:
    """The code generator for an accelerator."""
    supported: dict[str, Predicate] = {
        **dict.fromkeys(PATTERNS, always),
        "nn.max_pool2d": partial(layers.takes_max_pool, settings),
        **dict.fromkeys(layers.RESHAPES, layers.takes_reshape),
    }
    return ExternalCodegen("vta", partial(_lower, settings), supported)


def _lower(settings: Settings, function: Function, args: Sequence[Expr]) -> Expr:
    compiled = compile_region(function, settings)
    if compiled is None:
        return substitute(in_place(function.body), dict(zip(function.params, args)))
    type_ = function.checked_type
    assert isinstance(type_, FuncType)
    work = flops(Call(function, args))
    span = ", ".join(layer["name"] for layer in compiled.plan["layers"])
    return program_calls(compiled, args, type_.ret_type, settings.driver, work, span)
