"""Backward operators, as training graphs of AOTAutograd hold them: converters of forward operators, differentiated.

Where the forward operator has noted positions (of maxima), the gradients go there; the rest is the adjoint of what its
own converter makes, on variables that stand for its operands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.frontend.idioms import broadcast_to, constant, product, rank_of, reshape, shape_of
from tilewright.frontend.signature import apply
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.pooling import window_of
from tilewright.frontend.torch.registry import converts, find_converter
from tilewright.frontend.torch.types import is_static
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr, Var
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import substitute
from tilewright.relay.op.gradients.adjoint import adjoints
from tilewright.relay.transform.fuse.fuse_attention import with_differentiable_attention


def _gradients(
    node: TorchNode, forward: str, wrt: tuple[str, ...], gradient: str = "grad_output", **more: Any
) -> list[Expr]:
    """Gradients of the operands `wrt` of the operator `forward`, whose result has the gradient that `node` is given.

    The arguments of `forward` are those of `node` of the same names, and `more`.
    """
    given: Mapping[str, Any] = {**node.arguments, **more}
    variables = {name: Var(name, tensor_type_of(given[name])) for name in wrt}
    for variable in variables.values():
        variable.set_inferred_type(variable.type_annotation)
    call = TorchNode(
        node.name, forward, {**given, **variables}, node.metas, node.metas[gradient], node.sizes, node.draws
    )
    converter = find_converter(forward)
    assert converter is not None
    made = apply(converter, call)
    assert isinstance(made, Expr)
    found = adjoints(with_differentiable_attention(made), list(variables.values()), node[gradient])
    known: dict[Expr, Expr] = {variable: given[name] for name, variable in variables.items()}
    return [substitute(value, known) for value in found]


@converts("aten.convolution_backward", "aten.convolution_backward_overrideable")
def convert_convolution_backward(node: TorchNode, output_mask: Any, grad_output: Expr) -> list[Expr]:
    """Gradients of the data, the weight and the bias; those that the mask leaves out nothing reads."""
    names = [name for name, asked in zip(("input", "weight"), output_mask) if asked]
    found = dict(zip(names, _gradients(node, "aten.convolution.default", tuple(names), bias=None))) if names else {}
    gradient = grad_output
    if output_mask[2]:
        found["bias"] = op.sum(gradient, axis=(0, *range(2, rank_of(gradient))))
    return [found.get(name, gradient) for name in ("input", "weight", "bias")]


_POOLING = ("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "avg_pool2d", "avg_pool3d")
_PADDING = tuple(f"replication_pad{rank}d" for rank in (1, 2, 3))


converts.functions({
    " ".join(f"aten.{name}_backward" for name in (*_POOLING, *_PADDING)): (
        lambda node: _gradients(node, node.target.replace("_backward", ""), ("self",))[0]
    ),
    "aten.grid_sampler_2d_backward aten.grid_sampler_3d_backward": (
        lambda node: _gradients(node, node.target.replace("_backward", ""), ("input", "grid"))
    ),
    "aten._scaled_dot_product_flash_attention_for_cpu_backward": lambda node: _gradients(
        node, "aten.scaled_dot_product_attention.default", ("query", "key", "value"), "grad_out"
    ),
})  # fmt: skip


@converts("aten.hardshrink_backward", "aten.softshrink_backward")
def convert_shrink_backward(node: TorchNode, lambd: Any) -> Expr:
    gradient = node["grad_out"] if "grad_out" in node.arguments else node["grad_output"]
    return op.where(op.abs(node["self"]) <= lambd, gradient * 0, gradient)


_RESIZING = (
    *(f"{kind}{rank}d" for kind in ("upsample_nearest", "_upsample_nearest_exact") for rank in (1, 2, 3)),
    "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d",
    "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa",
)  # fmt: skip


@converts(*(f"aten.{name}_backward" for name in _RESIZING))
def convert_resizing_backward(node: TorchNode, grad_output: Expr, input_size: Any) -> Expr:
    data = Var("data", TensorType(tuple(input_size), tensor_type_of(grad_output).dtype))
    data.set_inferred_type(data.type_annotation)
    return _gradients(node, node.target.replace("_backward", ""), ("self",), self=data)[0]


@converts(
    "aten.max_pool2d_with_indices_backward", "aten.max_pool3d_with_indices_backward",
    "aten.adaptive_max_pool2d_backward", "aten.adaptive_max_pool3d_backward",
    "aten.fractional_max_pool2d_backward", "aten.fractional_max_pool3d_backward",
)  # fmt: skip
def convert_max_pool_backward(node: TorchNode, grad_output: Expr, indices: Expr) -> Expr:
    """Each gradient goes to the position that its window's largest element had; those of one position are summed."""
    data = node["self"]
    rank = 3 if "3d" in node.target else 2
    whole = node.target.startswith("aten.max_pool2d") and set(node.pair("dilation", 2, 1)) == {1}
    if whole and is_static((*shape_of(data)[-2:], *shape_of(grad_output)[-2:])):
        kernel, step, _, before = window_of(node, 2)
        sizes = shape_of(data)[-2:]
        gradient, index = (op.expand_dims(x, 0) if rank_of(x) == 3 else x for x in (grad_output, indices))
        made = op.nn.max_pool2d_grad_at(gradient, index, sizes, kernel, step, (*before, *before))
        return reshape(made, node.shape)
    lead, plane = shape_of(data)[:-rank], product(shape_of(data)[-rank:])
    windows = product(shape_of(grad_output)[-rank:])
    zeros = broadcast_to(constant(0, tensor_type_of(grad_output).dtype), (product(lead), plane))
    flat = [reshape(value, (product(lead), windows)) for value in (indices, grad_output)]
    return reshape(op.scatter_elements(zeros, flat[0], flat[1], axis=1, reduction="add"), node.shape)
