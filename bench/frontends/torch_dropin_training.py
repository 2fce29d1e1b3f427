"""Programs of `torch_dropin.py` about gradients: optimizers in graphs, `torch.func`, gradients of one's own."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch_dropin_state import PROGRAMS, net_of, program
from torch_dropin_way import Way


def _optimized(way: Way, make: Any) -> Any:
    net = net_of()
    optimizer = make(net.parameters())

    @way.compiled
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return [step(way.draw(5, 4)) for _ in range(2)], [*net.state_dict().values()]


for _name, _make in {
    "SGD": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    "Adam": lambda p: torch.optim.Adam(p, 0.01),
    "AdamW": lambda p: torch.optim.AdamW(p, 0.01, foreach=True),
    "RMSprop": lambda p: torch.optim.RMSprop(p, 0.01),
    "Adagrad": lambda p: torch.optim.Adagrad(p, 0.1),
    "NAdam": lambda p: torch.optim.NAdam(p, 0.01),
}.items():
    PROGRAMS[f"whole step with {_name}"] = lambda way, make=_make: _optimized(way, make)


@program
def optimizer_step_alone(way: Way) -> Any:
    net = net_of()
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    step = way.compiled(lambda: optimizer.step())
    for _ in range(2):
        net(way.draw(5, 4)).sum().backward()
        step()
    return [*net.state_dict().values()]


@program
def clipped_gradients(way: Way) -> Any:
    net = net_of()
    net(way.draw(5, 4)).sum().backward()
    norm = way.compiled(lambda: nn.utils.clip_grad_norm_(net.parameters(), 0.5))()
    return norm, [one.grad for one in net.parameters()]


def _functional(name: str, transform: Any) -> None:
    def run(way: Way) -> Any:
        with torch.no_grad():
            return way.compiled(lambda x: transform(lambda z: (z.sin() * z.flip(0)).cumsum(0))(x))(way.draw(4))

    PROGRAMS[f"torch.func.{name}"] = run


_functional("jacrev", torch.func.jacrev)
_functional("jacfwd", torch.func.jacfwd)
_functional("hessian", lambda f: torch.func.hessian(lambda z: f(z).sum()))
_functional("grad", lambda f: torch.func.grad(lambda z: f(z).sum()))
_functional("vmap", lambda f: lambda x: torch.func.vmap(f)(x.outer(x)))
_functional("vmap of last", lambda f: lambda x: torch.func.vmap(f, in_dims=1, out_dims=1)(x.outer(x)))
_functional("vjp", lambda f: lambda x: torch.func.vjp(f, x)[1](x))
_functional("jvp", lambda f: lambda x: torch.func.jvp(f, (x,), (x,)))
_functional(
    "gradients of samples", lambda f: lambda x: torch.func.vmap(torch.func.grad(lambda z: f(z).sum()))(x.outer(x))
)


@program
def transforms_outside(way: Way) -> Any:
    return torch.func.vmap(way.compiled(lambda x: x.sin().sum()))(way.draw(3, 4))


class _Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        (x,) = ctx.saved_tensors
        return gradient * 3 * x.square()


class _Marked(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = (x > 0).float()
        ctx.mark_non_differentiable(y)
        return x.t() * 2, y

    @staticmethod
    def backward(ctx: Any, gradient: Any, _other: Any) -> Any:
        return gradient.t() * 2


@program
def gradient_of_ones_own(way: Way) -> Any:
    x = way.draw(3, 4, grad=True)
    found = way.compiled(lambda x: _Cube.apply(x.t()) + 1)(x)
    found.sum().backward()
    return found, x.grad


@program
def gradient_of_ones_own_marked(way: Way) -> Any:
    x = way.draw(3, 4, grad=True)
    found = way.compiled(lambda x: _Marked.apply(x))(x)
    found[0].sum().backward()
    return found, x.grad


@program
def double_backward(way: Way) -> Any:
    x = way.draw(3, grad=True)
    found = way.compiled(lambda x: (x**3).sum())(x)
    (first,) = torch.autograd.grad(found, x, create_graph=True)
    first.sum().backward()
    return first, x.grad


@program
def gradient_twice(way: Way) -> Any:
    x = way.draw(3, grad=True)
    found = way.compiled(lambda x: x.exp())(x).sum()
    found.backward(retain_graph=True)
    found.backward()
    return x.grad


@program
def gradient_within(way: Way) -> Any:
    x = way.draw(3, grad=True)
    return way.compiled(lambda x: torch.autograd.grad((x**3).sum(), x)[0])(x)


@program
def gradient_of_expanded(way: Way) -> Any:
    x = way.draw(3, 4, grad=True)
    found = way.compiled(lambda x: x.t() * 2)(x)
    found.backward(torch.ones(1, 1).expand(4, 3))
    return x.grad


@program
def gradient_of_transposed_order(way: Way) -> Any:
    x = way.draw(3, 4, grad=True)
    found = way.compiled(lambda x: x.sin())(x)
    found.backward(torch.randn(4, 3).t())
    return x.grad
