"""Functions of functions and the odd corners of the language: transforms, control flow, operators of one's own."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch_uses_way import Way, program


def _small(way: Way) -> nn.Module:
    return way.wide(nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 2)))


@program
def gradients_of_each_sample(way: Way) -> Any:
    net = _small(way)
    weights = {name: one.detach() for name, one in net.named_parameters()}

    def loss(given: Any, x: Any, y: Any) -> Any:
        return F.cross_entropy(torch.func.functional_call(net, given, (x[None],)), y[None])

    @way.compiled
    def run(given: Any, x: Any, y: Any) -> Any:
        return torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(given, x, y)

    return run(weights, way.draw(5, 3), torch.randint(0, 2, (5,)))


@program
def jacobians_and_hessians(way: Way) -> Any:
    net = _small(way)

    @way.compiled
    def run(x: Any) -> Any:
        func = torch.func
        return (
            func.jacrev(net)(x), func.jacfwd(net)(x), func.hessian(lambda z: net(z).square().sum())(x),
            func.vmap(func.jacrev(net))(x.expand(4, 3)), func.jvp(net, (x,), (torch.ones_like(x),)),
            func.vjp(net, x)[1](torch.ones(2, dtype=x.dtype))[0],
        )  # fmt: skip

    with torch.no_grad():
        return run(way.draw(3))


@program
def ensembles(way: Way) -> Any:
    nets = [_small(way) for _ in range(3)]
    weights, buffers = torch.func.stack_module_state(nets)

    @way.compiled
    def run(given: Any, x: Any) -> Any:
        each = torch.func.vmap(lambda w, z: torch.func.functional_call(nets[0], (w, buffers), (z,)), in_dims=(0, None))
        return each(given, x), torch.func.vmap(lambda a, b: (a * b).sum(), in_dims=(1, 1))(x, x)

    return run({name: one.detach() for name, one in weights.items()}, way.draw(4, 3))


@program
def learning_to_learn(way: Way) -> Any:
    """Gradients through two steps of an inner loop, for several tasks at once."""
    first, second = way.draw(1, 8) * 0.5, way.draw(8, 1) * 0.5

    def predict(w: Any, x: Any) -> Any:
        return torch.sin(x @ w[0]) @ w[1]

    @way.compiled
    def loss(a: Any, b: Any, xs: Any, ys: Any) -> Any:
        def task(x: Any, y: Any) -> Any:
            w = (a, b)
            for _ in range(2):
                steps = torch.func.grad(lambda v: F.mse_loss(predict(v, x[:5]), y[:5]))(w)
                w = tuple(one - 0.1 * step for one, step in zip(w, steps))
            return F.mse_loss(predict(w, x[5:]), y[5:])

        return torch.func.vmap(task)(xs, ys).mean()

    a, b = first.requires_grad_(), second.requires_grad_()
    value = loss(a, b, way.draw(3, 9, 1), way.draw(3, 9, 1))
    value.backward()
    return value, a.grad, b.grad


@program
def transforms_of_compiled_functions(way: Way) -> Any:
    """The other way round: transforms outside, the compiled function within."""
    inner = way.compiled(lambda x: torch.sin(x).prod(-1) + x.logsumexp(-1))
    x = way.draw(4, 3)
    return torch.func.vmap(inner)(x), torch.func.grad(lambda z: inner(z).sum())(x)


@program
def branches_and_loops(way: Way) -> Any:
    """cond, while_loop, map, scan and associative_scan of `torch._higher_order_ops`, by torch.compile."""
    ops = torch._higher_order_ops

    @way.compiled
    def run(x: Any, limit: Any) -> Any:
        branch = torch.cond(x.sum() > 0, lambda z: z.sin(), lambda z: z.cos() * 2, (x,))
        looped = ops.while_loop(lambda i, z: i < limit, lambda i, z: (i + 1, z * 0.5 + i), (torch.zeros_like(limit), x))
        final, steps = ops.scan(lambda c, z: (c * 0.9 + z, c.tanh() + z), torch.zeros_like(x[0]), x)
        return branch, looped, final, steps

    with torch.no_grad():
        return [run(x, torch.tensor(3)) for x in (way.draw(4, 3), -way.draw(4, 3).abs())]


@program
def associative_scans(way: Way) -> Any:
    """A linear recurrence by `associative_scan`, which state-space networks are made of."""
    from torch._higher_order_ops.associative_scan import associative_scan

    def joined(one: Any, other: Any) -> Any:
        return one[0] * other[0], other[0] * one[1] + other[1]

    @way.compiled
    def run(a: Any, b: Any) -> Any:
        return associative_scan(joined, (a.sigmoid(), b), dim=1, combine_mode="generic")[1]

    with torch.no_grad():
        return run(way.draw(2, 7, 3), way.draw(2, 7, 3))


@program
def attention_with_scores_of_ones_own(way: Way) -> Any:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    slopes = way.wide(torch.tensor([0.5, 0.25]))

    def score(value: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return value - slopes[h] * (q - k).abs()

    seen = create_block_mask(lambda b, h, q, k: q >= k, None, None, 16, 16, device="cpu")

    @way.compiled
    def run(q: Any, k: Any, v: Any) -> Any:
        return flex_attention(q, k, v, score_mod=score, block_mask=seen)

    with torch.no_grad():
        return run(way.draw(1, 2, 16, 16), way.draw(1, 2, 16, 16), way.draw(1, 2, 16, 16))


class _Rounded(torch.autograd.Function):
    """Rounding with a gradient of its own."""

    @staticmethod
    def forward(context: Any, x: Any, step: float) -> Any:
        context.save_for_backward(x)
        context.step = step
        return torch.round(x / step) * step

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        (x,) = context.saved_tensors
        return gradient * (x.abs() < 1) + context.step, None


@program
def gradients_of_ones_own(way: Way) -> Any:
    x = way.draw(4, 3).requires_grad_()
    made = way.compiled(lambda z: _Rounded.apply(z * 1.5, 0.25).square())(x)
    made.sum().backward()
    return made, x.grad


_Pair = namedtuple("_Pair", ["left", "right"])


@dataclass
class _Result:
    value: Any
    more: dict[str, Any]


@program
def structures(way: Way) -> Any:
    """Named tuples, data classes, lists, None, strings and numbers in and out; a hook; keyword arguments."""
    line = way.wide(nn.Linear(3, 3))
    line.register_forward_hook(lambda module, args, made: made * 2)

    @way.compiled
    def run(pair: Any, items: Any, *, mode: str = "sum", scale: float = 1.0, nothing: Any = None) -> Any:
        made = line(pair.left) + (pair.right if pair.right is not None else 0)
        for name, item in items.items():
            made = made + item.mean() if name.startswith("m") else made - item.amax()
        made = made.sum(0) if mode == "sum" else made.prod(0)
        return _Result(made * scale, {"list": [made, None, 3], "pair": _Pair(made + 1, nothing)})

    results = []
    for mode, scale, right in (("sum", 1.0, None), ("prod", 0.5, way.draw(4, 3)), ("sum", 0.25, None)):
        found = run(_Pair(way.draw(4, 3), right), {"mean": way.draw(2), "other": way.draw(5)}, mode=mode, scale=scale)
        results.append((found.value, found.more["list"][0], found.more["pair"].left))
    return results


@program
def filters_in_time(way: Way) -> Any:
    """A Kalman filter: small matrices multiplied, solved and factored in a loop that is written out."""

    @way.compiled
    def run(seen: Any, a: Any, c: Any) -> Any:
        x, p = torch.zeros(3, dtype=seen.dtype), torch.eye(3, dtype=seen.dtype)
        noise, total, means = 0.1 * torch.eye(2, dtype=seen.dtype), 0.0, []
        for z in seen:
            x, p = a @ x, a @ p @ a.mT + 0.01 * torch.eye(3, dtype=seen.dtype)
            s = c @ p @ c.mT + noise
            gain = torch.linalg.solve(s, c @ p).mT
            rest = z - c @ x
            factor = torch.linalg.cholesky(s)
            y = torch.linalg.solve_triangular(factor, rest[:, None], upper=False)
            total = total - y.square().sum() - 2 * factor.diagonal().log().sum()
            x, p = x + gain @ rest, p - gain @ c @ p
            means.append(x)
        return torch.stack(means), total, torch.linalg.inv(p), torch.linalg.matrix_exp(a * 0.1)

    with torch.no_grad():
        return run(way.draw(5, 2), way.draw(3, 3) * 0.4, way.draw(2, 3))


@program
def einsums_and_tables(way: Way) -> Any:
    """Products by letters, tables of bags, one-hot, quantiles, histograms, sorts, bits, dates of integers."""
    bag = way.wide(nn.EmbeddingBag(10, 4, mode="mean"))

    @way.compiled
    def run(a: Any, b: Any, n: Any) -> Any:
        made = torch.einsum("bhqd,bhkd->bhqk", a, b).softmax(-1)
        whole = torch.einsum("bhqk,bhkd,hde->bqhe", made, b, a[0].mT @ b[0])
        bits = ((n[:, None] >> torch.arange(6)) & 1).flip(-1)
        order = torch.argsort(n, stable=True, descending=True)
        unique = torch.quantile(a.flatten(), torch.tensor([0.1, 0.5], dtype=a.dtype)), a.flatten().kthvalue(5).values
        sums = torch.zeros(4, dtype=a.dtype).index_add(0, n % 4, a.flatten()[: n.shape[0]])
        days = torch.div(n * 146097, 4, rounding_mode="floor") - torch.remainder(-n, 7)
        bags = bag(n, torch.tensor([0, 2, 2, 5]))
        return (
            whole,
            bits,
            order,
            *unique,
            sums,
            days,
            bags,
            torch.cummax(a, -1),
            torch.tril_indices(4, 4),
            a.var((1, 2)),
        )

    with torch.no_grad():
        return run(way.draw(2, 2, 4, 4), way.draw(2, 2, 4, 4), torch.randint(0, 10, (7,)))
