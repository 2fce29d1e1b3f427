"""PyTorch's fast paths of attention and encoder layers in inference, by `torch.compile`; nothing falls back."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from tilewright.frontend.torch.graph import convert_graph, without_converter
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.visitor import calls
from tilewright.torch_backend import FallbackWarning, tilewright

torch = pytest.importorskip("torch", reason="needs the torch package")


@pytest.fixture(autouse=True)
def fresh() -> Any:
    torch._dynamo.reset()
    torch.manual_seed(0)


def agree(module: Any, *tensors: Any, within: float = 1e-5, **more: Any) -> None:
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        wanted = torch.utils._pytree.tree_leaves(module(*tensors, **more))
        found = torch.utils._pytree.tree_leaves(torch.compile(module, backend=tilewright)(*tensors, **more))
        for one, two in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, two, rtol=10 * within, atol=within)


MASKS: dict[str, dict[str, Any]] = {
    "none": {},
    "of places": {"src_mask": torch.ones(5, 5, dtype=torch.bool).triu(1)},
    "of samples": {"src_key_padding_mask": torch.tensor([[False] * 5, [False] * 3 + [True] * 2])},
    "of both": {
        "src_mask": torch.ones(5, 5, dtype=torch.bool).triu(1),
        "src_key_padding_mask": torch.tensor([[False] * 5, [False] * 3 + [True] * 2]),
    },
}


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("mask", MASKS)
def test_encoder_layers_agree_under_every_mask(mask: str, norm_first: bool) -> None:
    layer = torch.nn.TransformerEncoderLayer(
        8, 2, 12, activation="gelu" if norm_first else "relu", batch_first=True, norm_first=norm_first
    )
    agree(layer.eval(), torch.randn(2, 5, 8), **MASKS[mask])


def operators_of(module: Any, *tensors: Any, training: bool = False) -> list[str]:
    """The Relay operators of the graph that AOTAutograd makes of a call, the forward one in training."""
    graphs: list[Any] = []

    def record(graph: Any, _inputs: Any) -> Any:
        graphs.append(graph)
        return make_boxed_func(graph.forward)

    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    backend = aot_autograd(fw_compiler=record, decompositions=without_converter())
    with torch.set_grad_enabled(training):
        torch.compile(module, backend=backend)(*tensors)
    module = convert_graph(graphs[0].graph, {}).module
    assert module is not None
    return [call.op.name for call in calls(module["main"]) if isinstance(call.op, Op)]


@pytest.mark.parametrize("shape", [(8,), (5, 8)], ids=str)
@pytest.mark.parametrize("affine", [True, False])
def test_layer_normalization_stays_whole(shape: tuple[int, ...], affine: bool) -> None:
    layer, x = torch.nn.LayerNorm(shape, elementwise_affine=affine), torch.randn(2, 5, 8) + 3
    agree(layer, x)
    assert operators_of(layer, x).count("nn.layer_norm") == 1
    torch._dynamo.reset()
    assert "nn.layer_norm" not in operators_of(layer, x.requires_grad_(), training=True)  # its statistics are read


@pytest.mark.parametrize(
    "options", [{"average_attn_weights": False}, {"average_attn_weights": True}, {"need_weights": False}], ids=str
)
def test_attention_of_several_heads(options: dict[str, bool]) -> None:
    layer, x = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval(), torch.randn(2, 5, 8)
    agree(layer, x, x, x, **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_attention_for_the_processor(dtype: Any) -> None:
    class Attention(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)

    agree(Attention(), torch.randn(2, 3, 5, 8).to(dtype), within=1e-5 if dtype == torch.float32 else 0.01)
