"""Programs in bfloat16 and float16 against eager PyTorch, to a rounding or two of these types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.frontend.torch import from_pytorch
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.runtime.dlpack import import_array

torch = pytest.importorskip("torch", reason="needs the torch package")
functional = torch.nn.functional

X = torch.randn(3, 4, 8, generator=torch.Generator().manual_seed(0))
IMAGE = torch.randn(2, 4, 9, 9, generator=torch.Generator().manual_seed(1))


class Call(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


#: Functions, with the largest difference in roundings of the type, of the largest element.
CASES: dict[str, tuple[Any, int]] = {
    "numbers of more bits": (lambda x: (x * 0.7, x / 0.3, x + 0.1, 0.1 - x, torch.add(x, x, alpha=0.3)), 0),
    "quotients and remainders": (
        lambda x: (x // 0.7, torch.remainder(x, 0.3), torch.fmod(x, 0.3), torch.div(x, 0.3, rounding_mode="trunc")),
        0,
    ),
    "sums": (lambda x: (x.sum(1), x.mean((1, 2)), x.cumsum(2), x.prod(1)), 2),
    "spread": (lambda x: ((x * 300).std(1), (x * 99).var(-1), (x * 300).norm(dim=1), torch.logsumexp(x, 1)), 2),
    "softmax": (lambda x: (x.softmax(-1), x.log_softmax(1)), 2),
    "products": (lambda x: (x @ x.transpose(1, 2), torch.einsum("bij,bkj->bik", x, x)), 2),
    "layer_norm": (lambda x: functional.layer_norm(x * 300, (8,)), 3),
    "rms_norm": (lambda x: tuple(functional.rms_norm(x * scale, (8,)) for scale in (300, 1, 1e-4)), 3),
    "attention": (lambda x: functional.scaled_dot_product_attention(x, x, x, is_causal=True), 3),
    "activations": (lambda x: (functional.gelu(x), functional.silu(x), functional.mish(x), functional.elu(x)), 3),
    "orders": (lambda x: (x.sort(-1).values, x.topk(3).values, x.argmax(1), x.median(), x.clamp(-0.5, 0.5)), 0),
}

PLANES: dict[str, tuple[Any, int]] = {
    "convolution": (lambda x: functional.conv2d(x, x[:, :, :3, :3], padding=1), 2),
    "pooling": (
        lambda x: (functional.max_pool2d(x, 2), functional.avg_pool2d(x, 3), functional.adaptive_avg_pool2d(x, 2)),
        2,
    ),
    "resized": (lambda x: functional.interpolate(x, size=(5, 13), mode="bilinear"), 2),
    "group_norm": (lambda x: functional.group_norm(x * 300, 2), 3),
}


def agree(function: Any, given: Any, most: int) -> None:
    wanted = torch.utils._pytree.tree_leaves(function(given))
    module, _ = from_pytorch(torch.export.export(Call(function), (given,), strict=False))
    rounding = torch.finfo(given.dtype).eps
    for found, right in zip(interpret(module, [import_array(given)]), wanted, strict=True):
        assert str(found.dtype) == str(right.dtype).removeprefix("torch.")
        exact = right.double().numpy()
        np.testing.assert_allclose(found.astype(np.float64), exact, 0, most * rounding * np.abs(exact).max())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", [*CASES, *PLANES])
def test_programs_of_16_bit_floats_agree_to_a_rounding(name: str, dtype: Any) -> None:
    function, most = CASES.get(name) or PLANES[name]
    agree(function, (X if name in CASES else IMAGE).to(dtype), most)
