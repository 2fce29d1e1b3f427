"""Programs that once ran in PyTorch for want of something small: nothing falls back, and numbers are numbers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from tilewright.torch_backend import FallbackWarning, tilewright

torch = pytest.importorskip("torch", reason="needs the torch package")
nn = torch.nn.functional


def normal(*shape: int) -> Any:
    return torch.randn(*shape, dtype=torch.float64)


def _steps(function: Callable[..., Any]) -> Callable[..., Any]:
    from torch._higher_order_ops.map import map as mapped

    return lambda x, y: mapped(function, x, y)


BAGS, LABELS, NEW_LABELS = torch.tensor([[0, 1], [5, 5]]), torch.tensor([0, 1, 2, 3]), torch.tensor([4, 1, 2, 3, -100])
WEIGHTS = torch.arange(1, 6)
FLAGS = torch.tensor([1, 0, 1, 1, 0, 0], dtype=torch.bool)
INTEGERS = (torch.tensor([12, -18, 0, 7, 0]), torch.tensor([8, 12, 5, -21, 0]))

#: function, arguments of calls; with more than one call, sizes are symbolic
CASES: dict[str, tuple[Callable[..., Any], Callable[[], list[tuple[Any, ...]]]]] = {
    "attention": (
        lambda q, k, v: nn.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda: [tuple(normal(*shape) for _ in range(3)) for shape in ((2, 2, 5, 8), (3, 4, 7, 16))],
    ),
    "float8": (lambda a: (a.float() * 2).to(a.dtype), lambda: [(normal(4, 4).to(torch.float8_e4m3fn),)]),
    "float8 of more range": (lambda a: (a.float() * 2).to(a.dtype), lambda: [(normal(4, 4).to(torch.float8_e5m2),)]),
    "mask in a loss": (lambda x, m: x[m].square().mean(), lambda: [(normal(6, 4), FLAGS)]),
    "item": (lambda x: (x.sum().item(), x * 2), lambda: [(normal(3),)]),
    "integer item": (lambda x: (x.sum().item(), x * 2), lambda: [(torch.tensor([1, 2]),)]),
    "numel": (lambda x: (x.numel(), x.shape[0] / 3, x * 2), lambda: [(normal(3),), (normal(5),)]),
    "numel of a choice": (lambda x: (x[x > 0].numel(), x * 2), lambda: [(normal(6),)]),
    "cross_entropy": (nn.cross_entropy, lambda: [(normal(4, 5), LABELS), (normal(5, 5), NEW_LABELS)]),
    "smoothed cross_entropy": (
        lambda x, t: nn.cross_entropy(x, t, weight=WEIGHTS.double(), label_smoothing=0.1, reduction="sum"),
        lambda: [(normal(4, 5), LABELS), (normal(5, 5), NEW_LABELS)],
    ),
    "eye": (lambda x: torch.eye(x.shape[0], x.shape[1]) + x, lambda: [(normal(3, 4),), (normal(5, 2),)]),
    "eye of a run": (lambda n: torch.eye(n.item()) * 2, lambda: [(torch.tensor(4),)]),
    "topk": (lambda x: x.topk(x.shape[0] // 2, dim=0), lambda: [(normal(6, 2),), (normal(9, 2),)]),
    "topk of a number": (lambda x, k: x.topk(k, dim=0), lambda: [(normal(6, 2), 3), (normal(9, 2), 4)]),
    "gcd": (torch.gcd, lambda: [INTEGERS]),
    "lcm": (torch.lcm, lambda: [INTEGERS]),
    "fftfreq": (lambda x: torch.fft.fftfreq(x.shape[0], 0.5) * x, lambda: [(normal(8),), (normal(9),)]),
    "rfftfreq": (lambda x: torch.fft.rfftfreq(9, 0.5) * x, lambda: [(normal(5),)]),
    "map": (_steps(lambda a, b: a.sin() * b), lambda: [(normal(4, 3), normal(3))]),
    "bags": (lambda w, i, o: nn.embedding_bag(i, w, o), lambda: [(normal(6, 4), BAGS.flatten(), torch.tensor([0, 3]))]),
    "weighted bags": (
        lambda w, p: nn.embedding_bag(BAGS, w, mode="sum", per_sample_weights=p),
        lambda: [(normal(6, 4), normal(2, 2))],
    ),
    "largest of bags": (lambda w: nn.embedding_bag(BAGS, w, mode="max"), lambda: [(normal(6, 4),)]),
    "bags with padding": (lambda w: nn.embedding_bag(BAGS, w, mode="mean", padding_idx=1), lambda: [(normal(6, 4),)]),
    "bags of any size": (
        lambda w, i: nn.embedding_bag(i, w), lambda: [(normal(6, 4), BAGS), (normal(6, 4), torch.ones(3, 3).long())],
    ),
    "rrelu": (lambda x: nn.rrelu(x, 0.1, 0.3), lambda: [(normal(6, 4),)]),
    "rrelu in training": (lambda x: nn.rrelu(x, 0.2, 0.2, training=True), lambda: [(normal(6, 4),)]),
    "logsigmoid of nothing": (nn.logsigmoid, lambda: [(normal(1, 0, 3),)]),
    "as_strided of a transpose": (lambda x: x.t().as_strided((2, 3), (1, 2)) * 2, lambda: [(normal(4, 5),)]),
    "as_strided of a part": (lambda x: (x + 1)[1:, 2:].as_strided((2, 2), (5, 1)) * 2, lambda: [(normal(4, 5),)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_it_is_compiled(name: str) -> None:
    function, calls = CASES[name]
    torch._dynamo.reset()
    torch.manual_seed(0)
    given = calls()
    options = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
    with torch._dynamo.config.patch(**options), warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        compiled = torch.compile(function, backend=tilewright, dynamic=len(given) > 1)
        for args in given:
            _compare(function, compiled, args)


def _compare(function: Callable[..., Any], compiled: Callable[..., Any], args: tuple[Any, ...]) -> None:
    results = []
    for run in (function, compiled):
        leaves = [one.detach().clone() if isinstance(one, torch.Tensor) else one for one in args]
        wrt = [one.requires_grad_() for one in leaves if getattr(one, "dtype", None) == torch.float64]
        found = torch.utils._pytree.tree_leaves(run(*leaves))
        differentiable = [one for one in found if isinstance(one, torch.Tensor) and one.requires_grad]
        loss = sum(one.sin().sum() for one in differentiable)
        results.append([*found, *(torch.autograd.grad(loss, wrt) if differentiable else ())])
    for right, ours in zip(*results, strict=True):
        assert type(ours) is type(right)
        assert not isinstance(right, torch.Tensor) or ours.dtype == right.dtype
        if isinstance(right, torch.Tensor) and right.dtype.itemsize == 1:
            right, ours = right.float(), ours.float()
        torch.testing.assert_close(ours, right, rtol=1e-5, atol=1e-6)
