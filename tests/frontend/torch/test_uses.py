"""Calls of users' programs beside layers: symbolic widths, training graphs, lists, graphs as operands, quantization."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import tilewright as tw
from tilewright.frontend.torch.normalization import foreach_rules
from tilewright.torch_backend import FallbackWarning, tilewright

torch = pytest.importorskip("torch", reason="needs the torch package")
F = torch.nn.functional


@pytest.fixture(autouse=True)
def fresh() -> Any:
    torch._dynamo.reset()
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        yield


def agree(function: Callable[..., Any], calls: Sequence[Sequence[Any]], within: float = 1e-5, **options: Any) -> None:
    """The same results and changes of the arguments by torch.compile as without, for each of the calls."""
    compiled = torch.compile(function, backend=tilewright, **options)
    for args in calls:
        own, others = copy.deepcopy(args), copy.deepcopy(args)
        wanted, found = (
            torch.utils._pytree.tree_leaves(run(*given)) for run, given in ((function, own), (compiled, others))
        )
        for one, two in zip([*found, *others], [*wanted, *own], strict=True):
            torch.testing.assert_close(one, two, rtol=10 * within, atol=within)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_padding_of_open_axes(mode: str) -> None:
    agree(lambda x: F.pad(x, (2, 3), mode=mode), [(torch.randn(2, 3, n),) for n in (6, 7, 9)], dynamic=True)


def test_padding_by_widths_of_the_run() -> None:
    def to_the_other(x: Any, y: Any) -> Any:
        more = y.shape[1] - x.shape[1]
        return F.pad(x, (more, 0), value=2.0), F.pad(x, (0, more), mode="replicate")[..., -3:]

    agree(to_the_other, [(torch.randn(2, n), torch.randn(2, m)) for n, m in ((5, 8), (6, 11), (7, 5))], dynamic=True)


def test_slices_and_rolls_by_integers_of_the_run() -> None:
    def write(ring: Any, x: Any, at: int) -> Any:
        ring[:, at : at + x.shape[1]] = x
        ring[:, 1 : at + 2 : 2] = 0
        return ring.roll(-at, 1), ring.roll(at, 1)

    agree(write, [(torch.randn(2, 8), torch.randn(2, n), at) for n, at in ((3, 2), (2, 4), (4, 3))], dynamic=True)


def test_windows_of_open_axes() -> None:
    agree(lambda x: x.unfold(-1, 4, 3).mean(-1), [(torch.randn(2, n),) for n in (9, 11, 16)], dynamic=True)


def test_rounded_quotients_of_sizes() -> None:
    def sizes(x: Any) -> Any:
        n = x.shape[0]
        return x[: -(-3 * n // 4)], x.new_zeros(int(n * 0.375)), x[: torch.sym_int(n / 2)], x[: -int(-n / 3)]

    agree(sizes, [(torch.randn(n),) for n in (7, 8, 13)], dynamic=True)


def test_spread_over_open_axes() -> None:
    agree(lambda x: (x.var(0), x.std((0, 1), correction=0)), [(torch.randn(n, 3),) for n in (4, 5, 9)], dynamic=True)


def test_training_in_batches_and_planes_of_open_size() -> None:
    net = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3, 2, 1), torch.nn.BatchNorm2d(3), torch.nn.Conv2d(3, 2, 2, 2))
    others = copy.deepcopy(net)
    compiled = torch.compile(others, backend=tilewright, dynamic=True)
    for shape in ((2, 2, 8, 9), (3, 2, 11, 8), (2, 2, 13, 10)):
        x = torch.randn(shape)
        y = x.clone().requires_grad_()
        x.requires_grad_()
        net(x).square().mean().backward()
        compiled(y).square().mean().backward()
        torch.testing.assert_close(y.grad, x.grad, rtol=1e-4, atol=1e-5)
    for one, two in zip(others.parameters(), net.parameters()):
        torch.testing.assert_close(one.grad, two.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(others[1].running_var, net[1].running_var)


def test_training_that_keeps_two_views_of_one_tensor() -> None:
    first, second = torch.randn(6, 4).requires_grad_(), torch.randn(4, 3).requires_grad_()

    def loss(x: Any) -> Any:
        h = (x @ first).view(2, 2, 4)
        return ((h.reshape(4, 4) @ second).sin().sum() + (h.transpose(0, 1) @ second).square().sum()).square()

    x = torch.randn(4, 6)
    wanted = torch.autograd.grad(loss(x), (first, second))
    found = torch.autograd.grad(torch.compile(loss, backend=tilewright)(x), (first, second))
    for one, two in zip(found, wanted):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-4)


def test_a_step_of_an_optimizer() -> None:
    weights = [torch.randn(3, 4), torch.randn(5)]
    results = []
    for compiled in (False, True):
        own = [one.clone().requires_grad_() for one in weights]
        optimizer = torch.optim.AdamW(own, lr=0.01)
        for turn in range(2):
            for one in own:
                one.grad = one.detach() * (turn + 1)
            step = torch.compile(optimizer.step, backend=tilewright) if compiled else optimizer.step
            step()
        results.append([one.detach() for one in own])
    for one, two in zip(*results):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-5)


def test_lists_of_tensors() -> None:
    def clip(a: Any, b: Any) -> Any:
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm([a, b], 2.0)))
        return torch._foreach_mul([a, b], torch.clamp(1 / norm, max=1.0)), torch._foreach_add([a, b], [b, a], alpha=2)

    agree(clip, [(torch.randn(3), torch.randn(3))])
    pair = [torch.rand(3), torch.rand(2)]
    for operator, args in (
        (torch.ops.aten._foreach_lerp.Scalar, (pair, pair, 0.5)),
        (torch.ops.aten._foreach_add.ScalarList, (pair, [1.0, 2.0])),
        (torch.ops.aten._foreach_pow.ScalarAndTensor, (2.0, pair)),
        (torch.ops.aten._foreach_max.default, (pair,)),
    ):
        torch.testing.assert_close(foreach_rules()[operator](*args), operator(*args))


def test_a_scan_agrees_with_eager_mode() -> None:
    def run(x: Any) -> Any:
        return torch._higher_order_ops.scan(lambda c, z: (c * 0.9 + z, c.tanh() + z), torch.zeros_like(x[0]), x)

    with torch.no_grad():
        agree(run, [(torch.randn(5, 3),)])


def test_attention_whose_scores_a_function_changes() -> None:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    slopes = torch.tensor([0.5, 0.25])
    seen = create_block_mask(lambda b, h, q, k: q >= k, None, None, 16, 16, device="cpu")

    def run(q: Any, k: Any, v: Any) -> Any:
        return flex_attention(q, k, v, lambda s, b, h, i, j: s - slopes[h] * (i - j).abs(), seen)

    with torch.no_grad():
        agree(run, [tuple(torch.randn(1, 2, 16, 8) for _ in range(3))])


def test_effects_in_order() -> None:
    """Factors of matrices, whose checks PyTorch orders by tokens."""

    def run(x: Any) -> Any:
        factor = torch.linalg.cholesky(x @ x.mT + torch.eye(3))
        return torch.linalg.solve_triangular(factor, x, upper=False)

    with torch.no_grad():
        agree(run, [(torch.randn(3, 3),)], within=1e-4)


def test_rounding_in_training() -> None:
    weight = torch.randn(4, 6).requires_grad_()
    steps, zero = torch.rand(4) / 50 + 0.01, torch.tensor([0, 1, -2, 3], dtype=torch.int32)

    def run(x: Any) -> Any:
        rows = torch.fake_quantize_per_channel_affine(weight, steps, zero, 0, -128, 127)
        return F.linear(torch.fake_quantize_per_tensor_affine(x, 0.02, 3, 0, 255), rows).square().sum()

    x = torch.randn(5, 6)
    (wanted,) = torch.autograd.grad(run(x), weight)
    (found,) = torch.autograd.grad(torch.compile(run, backend=tilewright)(x), weight)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def test_products_of_bytes() -> None:
    codes = [torch.randint(-128, 128, shape, dtype=torch.int8) for shape in ((20, 16), (16, 8))]
    agree(lambda a, b: torch._int_mm(a, b), [codes])


def test_a_calibrated_network() -> None:
    from torch.ao.quantization import get_default_qconfig_mapping
    from torch.ao.quantization.quantize_fx import _convert_to_reference_decomposed_fx, prepare_fx

    net = torch.nn.Sequential(torch.nn.Conv2d(2, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(64, 3))
    x = torch.randn(2, 2, 6, 6)
    prepared = prepare_fx(net.eval(), get_default_qconfig_mapping("onednn"), (x,))
    with torch.no_grad():
        prepared(x)
        made = _convert_to_reference_decomposed_fx(prepared)
        (found,) = tw.compile(torch.export.export(made, (x,)), cache=False).run({"input": x.numpy()})
        step = float((made(x).unique().diff()).min())  # of the last quantization
        torch.testing.assert_close(torch.from_numpy(found), made(x), rtol=0, atol=1.01 * step)
        assert (torch.from_numpy(found) == made(x)).float().mean() > 0.8
