"""State that changes and sizes that vary: caches, buffers, writes into inputs, open axes, quantized weights."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch_uses_way import Way, program


class _Cached(nn.Module):
    """One layer of attention with a cache of keys and values of fixed length, written at positions."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.qkv, self.out = how, nn.Linear(8, 24), nn.Linear(8, 8)
        self.register_buffer("keys", torch.zeros(1, 2, 12, 4))
        self.register_buffer("values", torch.zeros(1, 2, 12, 4))

    def forward(self, x: Any, positions: Any) -> Any:
        q, k, v = (part.view(1, -1, 2, 4).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        for held, new in ((self.keys, k), (self.values, v)):
            if self.how == "index_copy":
                held.index_copy_(2, positions, new)
            elif self.how == "index_put":
                held[:, :, positions] = new
            else:
                held.scatter_(2, positions[None, None, :, None].expand_as(new), new)
        seen = torch.arange(12)[None] <= positions[:, None]
        made = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=seen)
        return self.out(made.transpose(1, 2).reshape(1, -1, 8))


def _decode(run: Any, way: Way) -> Any:
    with torch.no_grad():
        results = [run(way.draw(1, 5, 8), torch.arange(5))]
        return [*results, *(run(way.draw(1, 1, 8), torch.tensor([5 + step])) for step in range(4))]


def _enter_caches() -> None:
    for how in ("index_copy", "index_put", "scatter"):

        def run(way: Way, how: str = how) -> Any:
            net = way.wide(_Cached(how)).eval()
            return _decode(way.compiled(net), way), net.keys, net.values

        run.__name__ = f"cache_by_{how}"
        program(run)

        def exported(way: Way, how: str = how) -> Any:
            steps = torch.export.Dim("steps", min=1, max=12)
            net = way.wide(_Cached(how)).eval()
            made = way.exported(net, (way.draw(1, 5, 8), torch.arange(5)), {"x": {1: steps}, "positions": {0: steps}})
            return _decode(made, way)

        exported.__name__ = f"cache_by_{how}_exported"
        program(exported)


_enter_caches()


@program
def cache_that_grows(way: Way) -> Any:
    """Keys and values joined to those before, whose length is open; the length is an integer that the caller counts."""
    qkv = way.wide(nn.Linear(8, 24))

    @way.compiled
    def step(x: Any, keys: Any, values: Any, at: int) -> Any:
        turn = torch.arange(at, at + x.shape[1], dtype=x.dtype)[:, None] * torch.tensor([1.0, 0.01], dtype=x.dtype)
        q, k, v = (part.view(1, -1, 2, 4).transpose(1, 2) for part in qkv(x).chunk(3, -1))

        def turned(y: Any) -> Any:
            a, b = y.chunk(2, -1)
            return torch.cat([a * turn.cos() - b * turn.sin(), b * turn.cos() + a * turn.sin()], -1)

        keys, values = torch.cat([keys, turned(k)], 2), torch.cat([values, v], 2)
        return F.scaled_dot_product_attention(turned(q), keys, values, is_causal=x.shape[1] > 1), keys, values

    held = [way.wide(torch.zeros(1, 2, 0, 4))] * 2
    results, at = [], 0
    with torch.no_grad():
        for count in (4, 1, 1, 1, 1):
            made, *held = step(way.draw(1, count, 8), *held, at)
            at += count
            results.append(made)
    return results, held


@program
def cache_by_slices(way: Way) -> Any:
    """A ring written by slices whose bounds are integers, and by positions counted round."""

    @way.compiled
    def write(ring: Any, x: Any, at: int) -> Any:
        ring[:, at : at + x.shape[1]] = x
        ring[:, (at + 5) % ring.shape[1]] += 1
        return ring.roll(-at, 1)[:, : x.shape[1]].sum(-1)

    ring = way.wide(torch.zeros(2, 8, 3))
    return [write(ring, way.draw(2, n, 3), at) for at, n in ((0, 3), (3, 2), (5, 1), (2, 4))], ring


@program
def writes_into_inputs(way: Way) -> Any:
    """In-position operators on inputs, on views of them, and on views that overlap."""

    @way.compiled
    def change(x: Any, y: Any, count: Any) -> Any:
        count += 1
        x[:, 0].mul_(2)
        x[1:, 1:].add_(y[1:, 1:])
        view = x.view(-1)[::2]
        view.clamp_(min=0)
        y.t().copy_(x[:4, :4].exp().t())
        y.diagonal().fill_(0.5)
        torch.sigmoid_(x[-1])
        x.masked_fill_(x > 3, -1.0)
        z = x.transpose(0, 1)
        z.sub_(0.25)
        return z, view.sum(), y.unsqueeze(0)

    x, y, count = way.draw(4, 4), way.draw(4, 4), torch.zeros((), dtype=torch.long)
    return [change(x, y, count) for _ in range(3)][-1], x, y, count


@program
def writes_through_views(way: Way) -> Any:
    """Two inputs on the same memory, a base that is not given, a chunk that is written to."""
    base = way.draw(3, 8)

    @way.compiled
    def change(a: Any, b: Any, c: Any) -> Any:
        a.add_(1)
        b.mul_(c)
        left, right = c.chunk(2, -1)
        left += right
        torch.add(a, b, out=right)
        return a + b, c.sum()

    return change(base[:, :4], base[:, 4:], way.draw(3, 4).repeat(1, 2)[:, :4]), base


@program
def running_statistics(way: Way) -> Any:
    """Buffers of normalization, a count of steps, and an exponential average, in training and after."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.line = nn.BatchNorm1d(4), nn.Linear(4, 2)
            self.register_buffer("steps", torch.zeros((), dtype=torch.long))
            self.register_buffer("mean", torch.zeros(2))
            self.last: Any = None

        def forward(self, x: Any) -> Any:
            made = self.line(self.norm(x))
            if self.training:
                self.steps += 1
                self.mean.lerp_(made.detach().mean(0), 0.1)
            self.last = made.detach() * 2
            return made - self.mean

    net = way.wide(Net())
    run = way.compiled(net)
    results = []
    for rows in (5, 7, 6):
        results.append(run(way.draw(rows, 4)))
        results[-1].square().sum().backward()
    net.eval()
    with torch.no_grad():
        results.append(run(way.draw(3, 4)))
    return results, net.last, list(net.buffers()), [one.grad for one in net.parameters()]


@program
def running_statistics_exported(way: Way) -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))
            self.register_buffer("seen", torch.zeros((), dtype=torch.long))
            self.register_buffer("window", torch.zeros(4, 3))

        def forward(self, x: Any) -> Any:
            self.seen.add_(x.shape[0])
            self.mean.add_((x.mean(0) - self.mean) * 0.5)
            self.window.copy_(torch.cat([self.window[1:], x.mean(0, keepdim=True)]))
            x.mul_(2)
            return x - self.mean, self.window.std(0)

    net = way.exported(way.wide(Net()), (way.draw(4, 3),), {"x": {0: torch.export.Dim("rows", min=2)}})
    given = [way.draw(n, 3) for n in (4, 6, 2)]
    return [net(one) for one in given], given


@program
def marked_axes(way: Way) -> Any:
    """`mark_dynamic` with bounds, an axis that follows another, reshapes between both, pooling by quotients."""
    conv, line = way.wide(nn.Conv1d(3, 4, 3, padding=1)), way.wide(nn.Linear(4, 5))

    @way.compiled
    def run(x: Any) -> Any:
        b, _, n = x.shape
        h = F.adaptive_avg_pool1d(conv(x).relu(), 4)
        made = line(h.permute(0, 2, 1).reshape(b * 4, 4)).view(b, -1)
        mean = x.unfold(-1, 4, 2).mean(-1).sum(-1) / n + n // 3
        return made, mean, x.flatten(1)[:, :: max(1, n // 4)].sum(1), torch.arange(n, dtype=x.dtype).expand(b, n) + b

    results = []
    for b, n in ((2, 8), (3, 8), (5, 12), (7, 20)):
        x = way.draw(b, 3, n)
        if way.ours:
            torch._dynamo.mark_dynamic(x, 0, min=2, max=15)
            torch._dynamo.mark_dynamic(x, 2)
        results.append(run(x))
    return results


@program
def sizes_of_values(way: Way) -> Any:
    """nonzero, masks and item() within a graph, as `capture_scalar_outputs` and its like leave them."""

    def run(x: Any, lengths: Any) -> Any:
        kept = x[x[:, 0] > 0]
        where = torch.nonzero(x > 1)
        longest = lengths.max().item()
        torch._check(longest >= 1)
        torch._check(longest <= 16)
        steps = torch.arange(longest)[None] < lengths[:, None]
        return kept * 2, where, steps, torch.repeat_interleave(lengths, lengths), torch.masked_select(x, x < 0).sum()

    fast = way.compiled(run)
    with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        return [fast(way.draw(6, 3), torch.tensor(lengths)) for lengths in ([3, 1, 2], [5, 4, 2])]


@program
def layouts_of_memory(way: Way) -> Any:
    """Inputs that are channels last, strided, expanded, empty, of no axes, negated or conjugated by a flag."""
    conv = way.wide(nn.Conv2d(3, 4, 3)).to(memory_format=torch.channels_last)

    @way.compiled
    def run(x: Any, y: Any, z: Any, w: Any, s: Any) -> Any:
        return conv(x), y * 2, y.t() @ y, z.sum(0), torch.cat([z, z]), w.imag.sum() + s, w * s, x.permute(0, 2, 3, 1)

    results = []
    for rows in (3, 0):
        image = way.draw(2, 3, 6, 6).to(memory_format=torch.channels_last)
        complex_ = torch.view_as_complex(way.draw(4, 2)).conj()
        results.append(run(image, way.draw(1, 5).expand(4, 5), way.draw(6, 8)[:rows, ::2], complex_, way.draw(1)[0]))
    results.append([conv(image).is_contiguous(memory_format=torch.channels_last) * torch.ones(1)])
    return results


@program
def quantized_weights(way: Way) -> Any:
    """Weights of 8 and 4 bits with scales by group, spread within the graph; activations by the largest of each row."""

    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            weight = torch.randn(8, 16)
            scale = weight.view(8, 2, 8).abs().amax(-1) / 7
            codes = (weight.view(8, 2, 8) / scale[..., None]).round().clamp(-8, 7).to(torch.int8).view(8, 16) + 8
            self.register_buffer("packed", (codes[:, ::2] | (codes[:, 1::2] << 4)).to(torch.uint8))
            self.register_buffer("scale", scale)
            other = torch.randn(4, 8)
            self.register_buffer("step", other.abs().amax(1) / 127)
            self.register_buffer("codes", (other / self.step[:, None]).round().to(torch.int8))

        def forward(self, x: Any) -> Any:
            low, high = self.packed & 15, self.packed >> 4
            codes = torch.stack([low, high], -1).view(8, 2, 8).to(torch.int8) - 8
            h = F.silu(x @ (codes * self.scale[..., None]).view(8, 16).T)
            step = h.abs().amax(-1, keepdim=True).clamp(min=1e-5) / 127
            bytes_ = (h / step).round().clamp(-128, 127).to(torch.int8)
            return torch._int_mm(bytes_, self.codes.T) * step * self.step, bytes_.float()

    net = way.wide(Packed())
    x = torch.randn(20, 16).to(net.scale.dtype)
    return way.compiled(net)(x), way.exported(net, (x,))(x)


@program
def fake_quantization(way: Way) -> Any:
    """Training that knows of 8 bits: observers that follow the range, rounding whose gradient passes through."""
    import torch.ao.quantization as ao

    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    kinds = [
        ao.FakeQuantize(ao.MovingAverageMinMaxObserver, quant_min=0, quant_max=255, reduce_range=False),
        ao.FakeQuantize(
            ao.MovingAveragePerChannelMinMaxObserver, quant_min=-128, quant_max=127, dtype=torch.qint8,
            qscheme=torch.per_channel_symmetric, ch_axis=0,
        ),
    ]  # fmt: skip

    @way.compiled
    def run(x: Any) -> Any:
        h = F.relu(F.linear(kinds[0](x), kinds[1](net[0].weight), net[0].bias))
        return net[2](torch.fake_quantize_per_tensor_affine(h, 0.02, 3, 0, 255))

    for _ in range(3):
        made = run(torch.randn(5, 6))
        made.square().mean().backward()
    return made, [one.grad for one in net.parameters()], [one for kind in kinds for one in kind.buffers()]


def _reference_quantized(net: nn.Module, example: Any) -> nn.Module:
    """A network after calibration, with the quantizing operators that PyTorch's exports carry."""
    from torch.ao.quantization import get_default_qconfig_mapping
    from torch.ao.quantization.quantize_fx import _convert_to_reference_decomposed_fx, prepare_fx

    prepared = prepare_fx(net.eval(), get_default_qconfig_mapping("onednn"), (example,))
    with torch.no_grad():
        for _ in range(3):
            prepared(torch.randn_like(example))
    return _convert_to_reference_decomposed_fx(prepared)


@program
def calibrated_network(way: Way) -> Any:
    """Convolutions and products between quantizing and dequantizing operators, exported and compiled."""
    torch.manual_seed(1)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, groups=4),
        nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
    )  # fmt: skip
    x = torch.randn(2, 3, 10, 10)
    made = _reference_quantized(net, x)
    with torch.no_grad():
        return way.exported(made, (x,))(x), way.compiled(made)(x)
