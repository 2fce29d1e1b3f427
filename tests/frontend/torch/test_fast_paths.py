"""What PyTorch calls in place of attention and encoder layers in inference, by `torch.compile`; nothing falls back."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

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
def test_encoder_layers(mask: str, norm_first: bool) -> None:
    layer = torch.nn.TransformerEncoderLayer(
        8, 2, 12, activation="gelu" if norm_first else "relu", batch_first=True, norm_first=norm_first
    )
    agree(layer.eval(), torch.randn(2, 5, 8), **MASKS[mask])


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
