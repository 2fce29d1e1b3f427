"""Programs of `torch_dropin.py` about what is given: modes, types, writes into inputs, odd tensors, modules, errors."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch_dropin_state import PROGRAMS, net_of, program, stepped
from torch_dropin_way import Way

for _mode in ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"):
    PROGRAMS[f"mode {_mode}"] = lambda way, mode=_mode: way.compiled(lambda x: x.t() + 1, mode=mode)(way.draw(3, 4))

for _dtype in (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
    torch.float64, torch.complex64, torch.complex128, torch.uint16, torch.float8_e4m3fn,
):  # fmt: skip

    def _typed(way: Way, dtype: Any = _dtype) -> Any:
        x = way.given((torch.randn(3, 4) > 0).to(dtype))
        return way.compiled(lambda x: (x.t(), x.t().clone(), x.clone()[1:], x == x))(x)

    def _summed(way: Way, dtype: Any = _dtype) -> Any:
        x = way.given((torch.randn(3, 4) * 3).to(dtype))
        return way.compiled(lambda x: (x.t() + x.t(), x.sum(), x.t().float() if not x.is_complex() else x.t().abs()))(x)

    PROGRAMS[f"copies of {_dtype}"] = _typed
    PROGRAMS[f"sums of {_dtype}"] = _summed


def _written(name: str, write: Any, *shapes: tuple[int, ...]) -> None:
    """A function that writes into its inputs, which are looked at too."""

    def run(way: Way) -> Any:
        given = [way.draw(*shape) for shape in shapes]
        return way.compiled(write)(*given), given

    PROGRAMS[f"writes: {name}"] = run


_written("all", lambda x: x.mul_(2), (3, 4))
_written("a row", lambda x: x[0].fill_(1), (3, 4))
_written("transposed", lambda x: x.t().add_(1), (3, 4))
_written("a column by index", lambda x: x.__setitem__((slice(None), 1), 5.0), (3, 4))
_written("where true", lambda x: x.masked_fill_(x > 0, 0), (3, 4))
_written("into another", lambda x, y: y.copy_(x.t()), (3, 4), (4, 3))
_written("out=", lambda x, y: torch.add(x, 1, out=y), (3, 4), (3, 4))
_written("input and view", lambda x: (x.add_(1), x[1:], x.view(-1)), (3, 4))
_written("swapped", lambda x, y: (x.add_(y), y.sub_(x)), (3,), (3,))
_written("scattered", lambda x: x.scatter_(0, torch.tensor([[0, 1, 2, 0]]), 1.0), (3, 4))
_written("resized within", lambda x: x.clone().resize_(2, 3), (3, 4))
_written("transposed in place", lambda x: x.clone().t_(), (3, 4))
_written("set data", lambda x: x.data.zero_(), (3,))


@program
def written_views_of_one(way: Way) -> Any:
    base = way.draw(6)
    one, other = base[:4], base[2:]
    return way.compiled(lambda a, b: (a.add_(1), b * 2))(one, other), base


@program
def same_input_twice(way: Way) -> Any:
    x = way.draw(3)
    return way.compiled(lambda a, b: (a + b, a.mul_(2), b))(x, x)


@program
def strided_inputs(way: Way) -> Any:
    x = way.draw(8, 9)
    return way.compiled(lambda a, b, c: (a + 1, b * 2, c[0], a.t()))(x[::2, 1::3], x.t(), x[1:3])


@program
def expanded_inputs(way: Way) -> Any:
    x = way.draw(1, 4)
    return way.compiled(lambda a: (a + 1, a.sum(0), a.t(), a.clone()))(x.expand(3, 4))


@program
def conjugate_inputs(way: Way) -> Any:
    z = way.draw(3, 4, dtype=torch.complex64)
    return way.compiled(lambda a: (a * 2, a.imag, a.conj(), a.t()))(z.conj())


@program
def negative_bits(way: Way) -> Any:
    z = way.draw(3, 4, dtype=torch.complex64)
    return way.compiled(lambda a: (a + 1, a.t(), a.clone()))(z.conj().imag)


@program
def scalars_as_inputs(way: Way) -> Any:
    run = way.compiled(lambda x, flag, n: (x * n, x.t() if flag else x, n))
    return run(way.draw(2, 3), True, 3), run(way.given(torch.tensor(2.0)), False, 2)


@program
def empty_batches(way: Way) -> Any:
    run = way.compiled(net_of())
    return [run(way.draw(rows, 4)) for rows in (3, 0, 2)]


@program
def subclass_of_tensors(way: Way) -> Any:
    net = nn.Linear(4, 3)
    return way.compiled(lambda x: net(x).t())(nn.Parameter(way.draw(2, 4).detach()))


@program
def effects_of_indices(way: Way) -> Any:
    table = nn.Embedding(5, 3)
    return way.compiled(lambda x: table(x))(torch.tensor([1, 7]))


@program
def shapes_that_do_not_fit(way: Way) -> Any:
    try:
        return way.compiled(lambda x, y: x @ y)(way.draw(3, 4), way.draw(3, 4))
    except Exception:
        return "refused"


@program
def errors_of_ones_own(way: Way) -> Any:
    def run(x: Any) -> Any:
        y = x + 1
        if y.shape[0] == 3:
            raise ValueError("three")
        return y

    return way.compiled(run)(way.draw(3))


@program
def spectral_norm(way: Way) -> Any:
    return way.compiled(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3)))(way.draw(2, 4))


@program
def weight_norm(way: Way) -> Any:
    return stepped(way, nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), way.draw(2, 4))


@program
def transformer(way: Way) -> Any:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    return stepped(way, layer, way.draw(2, 3, 8))


@program
def transformer_inferred(way: Way) -> Any:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    with torch.no_grad():
        return way.compiled(layer)(way.draw(2, 3, 8))


@program
def attention_with_weights(way: Way) -> Any:
    layer, x = nn.MultiheadAttention(8, 2, batch_first=True), way.draw(2, 3, 8)
    return way.compiled(lambda x: layer(x, x, x))(x)


@program
def unsupported_operator(way: Way) -> Any:
    return way.compiled(lambda x: (torch.igamma(x.abs(), x.abs()).t() + 1, x.t()))(way.draw(3, 4))


@program
def eigenvalues(way: Way) -> Any:
    return way.compiled(lambda x: torch.linalg.eigvals(x @ x.t()).real.sort()[0])(way.draw(3, 3))


@program
def compiled_within_compiled(way: Way) -> Any:
    inner = way.compiled(lambda x: x.t() * 2)
    return way.compiled(lambda x: (inner(x), inner(x + 1)))(way.draw(3, 4))


@program
def disabled_within(way: Way) -> Any:
    outside = torch._dynamo.disable(lambda x: x.t() + 1)
    return way.compiled(lambda x: outside(x * 2) * 3)(way.draw(3, 4))


@program
def generators(way: Way) -> Any:
    def pieces(x: Any) -> Any:
        for row in x:
            yield row * 2

    return way.compiled(lambda x: list(pieces(x)))(way.draw(3, 4))


@program
def numpy_within(way: Way) -> Any:
    return way.compiled(lambda x: torch.from_numpy(x.numpy() * 2).t())(way.draw(3, 4))


@program
def strings_and_none(way: Way) -> Any:
    return way.compiled(lambda x, how, other: (x.t() if how == "t" else x, other, how))(way.draw(3, 4), "t", None)


@program
def conditions(way: Way) -> Any:
    run = way.compiled(lambda x: torch.cond(x.sum() > 0, lambda z: z.sin(), lambda z: z.cos(), (x,)))
    return run(torch.ones(3)), run(-torch.ones(3))


@program
def module_lists(way: Way) -> Any:
    net = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    @way.compiled
    def run(x: Any) -> Any:
        seen = []
        for layer in net:
            x = layer(x).relu()
            seen.append(x)
        return seen

    return run(way.draw(2, 4))


@program
def shared_weights(way: Way) -> Any:
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    net[2].weight = net[0].weight
    return stepped(way, net, way.draw(2, 4))


@program
def compiled_by_method(way: Way) -> Any:
    net = net_of().eval()
    if way.backend:
        net.compile(backend=way.backend)
    with torch.no_grad():
        return net(way.draw(5, 4))
