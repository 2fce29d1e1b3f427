"""Random networks in PyTorch to train one step of: layers, a loss, parameters, some of which are shared or frozen.

A network is drawn from a seed: an image, a sequence or a matrix enters, layers are applied, earlier values are added,
multiplied or put beside, and a loss ends it. Sizes are small, and as often odd as whole vectors.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

#: Layers without parameters, of values of any shape; smooth ones and those with a kink, which rounding seldom meets.
ELEMENTWISE: dict[str, Callable[[Any], Any]] = {
    "relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu,
    "tanh": torch.tanh, "sigmoid": torch.sigmoid, "leaky_relu": lambda x: F.leaky_relu(x, 0.1), "elu": F.elu,
    "softplus": F.softplus, "mish": F.mish, "hardswish": F.hardswish, "relu6": lambda x: F.relu6(x * 2),
    "square": lambda x: x * x * 0.25, "sine": torch.sin, "scaled": lambda x: x * 0.5 + 0.1, "negated": lambda x: 1 - x,
    "divided": lambda x: x / (1 + x.abs()), "exponential": lambda x: torch.exp(-x * x),
    "root": lambda x: torch.sqrt(x * x + 0.5), "logarithm": lambda x: torch.log1p(x.abs()),
    "clamped": lambda x: x.clamp(-0.8, 1.1), "masked": lambda x: torch.where(x > 0.2, x, 0.3 * x),
}  # fmt: skip


class Network(nn.Module):
    """Steps over the values so far: each is a function of the numbers of earlier values, and makes the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList()
        self.steps: list[tuple[str, Callable[..., Any], tuple[int, ...]]] = []

    def forward(self, x: Any, target: Any) -> Any:
        values = [x]
        for _, call, sources in self.steps[:-1]:
            values.append(call(*[values[source] for source in sources]))
        _, loss, sources = self.steps[-1]
        return loss(values[sources[0]], target)

    def text(self) -> str:
        """The steps in words."""
        return " ".join(f"{name}({','.join(map(str, sources))})" for name, _, sources in self.steps)


class Drawing:
    """The network under way: `shapes` of its values, found by running it on the example."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        torch.manual_seed(seed)
        self.network, self.values = Network(), list[Any]()

    def choice(self, items: Any) -> Any:
        """One of them."""
        return self.rng.choice(list(items))

    def size(self, most: int) -> int:
        """A size, as often odd as a whole number of vectors."""
        return self.rng.choice([self.rng.randint(1, most), self.rng.choice([4, 8, 16, 32]), self.rng.randint(2, most)])

    def add(self, name: str, call: Callable[..., Any], *sources: int) -> bool:
        """Append a step, where it runs and its value is neither large nor empty."""
        parts = [call] if isinstance(call, nn.Module) else []
        try:
            made = call(*[self.values[source] for source in sources])
        except (RuntimeError, ValueError, IndexError):
            return False
        if not 0 < made.numel() <= 200_000 or not bool(torch.isfinite(made).all()):
            return False
        if made.dim() < 2 or float(made.detach().abs().max()) > 1e3:
            return False
        self.network.parts.extend(parts)
        self.network.steps.append((name, call, sources))
        self.values.append(made.detach())
        return True

    def layer(self, source: int) -> None:
        """One more step from a value, of a kind that its rank has."""
        rank = self.values[source].dim()
        kinds = {2: _matrix, 3: _sequence, 4: _image}.get(rank, _anything)
        self.rng.choice([kinds, kinds, _anything, _joined])(self, source)


# ---------------------------------------------------------------------------------------------------------- layers
def _anything(draw: Drawing, source: int) -> None:
    """An element-wise layer, a softmax, a reduction by an axis, a slice, a turn."""
    x = draw.values[source]
    axis = draw.rng.randrange(x.dim())
    cut = draw.rng.randint(0, x.shape[axis] // 2)
    kinds: dict[str, Callable[[Any], Any]] = {
        "softmax": lambda v: torch.softmax(v, axis), "log_softmax": lambda v: torch.log_softmax(v, axis),
        "centred": lambda v: v - v.mean(axis, keepdim=True), "scaled by the norm": lambda v: F.normalize(v, dim=axis),
        "less its maximum": lambda v: v - v.amax(axis, keepdim=True), "summed up": lambda v: v.cumsum(axis) * 0.3,
        "cut": lambda v: v.narrow(axis, cut, v.shape[axis] - cut), "turned": lambda v: v.flip(axis),
        "rolled": lambda v: v.roll(1, axis), "deviation": lambda v: v / (v.var(axis, keepdim=True) + 1).sqrt(),
    }  # fmt: skip
    if x.shape[axis] < 2:
        kinds.pop("deviation")
    name = draw.choice([*ELEMENTWISE, *kinds])
    draw.add(name, ELEMENTWISE.get(name) or kinds[name], source)


def _joined(draw: Drawing, source: int) -> None:
    """Two values together: added, multiplied, gated, side by side; of one shape, or one broadcast."""
    x = draw.values[source]
    same = [i for i, v in enumerate(draw.values) if v.dim() == x.dim() and v.is_floating_point()]
    kinds: dict[str, Callable[[Any, Any], Any]] = {
        "add": lambda a, b: a + b, "subtract": lambda a, b: a - 0.5 * b, "multiply": lambda a, b: a * b * 0.5,
        "gate": lambda a, b: a * torch.sigmoid(b), "beside": lambda a, b: torch.cat([a, b], 1),
        "maximum": torch.maximum, "where": lambda a, b: torch.where(a > b, a, b * 0.5),
    }  # fmt: skip
    name = draw.choice(kinds)
    draw.add(name, kinds[name], source, draw.choice(same))


def _image(draw: Drawing, source: int) -> None:
    """A layer of images [N, C, H, W]."""
    x, r = draw.values[source], draw.rng
    channels, out = x.shape[1], draw.size(24)
    size, stride = draw.choice([1, 1, 2, 3, 3, 3, 5]), draw.choice([1, 1, 1, 2])
    groups = draw.choice([g for g in range(1, channels + 1) if channels % g == 0])
    pad, bias = r.randint(0, size // 2), r.random() < 0.5
    kinds: list[Callable[[], tuple[str, Any]]] = [
        lambda: ("conv", nn.Conv2d(channels, out, size, stride, pad, bias=bias)),
        lambda: ("conv", nn.Conv2d(channels, out, size, stride, pad, bias=bias)),
        lambda: ("grouped", nn.Conv2d(channels, groups * r.randint(1, 2), size, stride, pad, groups=groups, bias=bias)),
        lambda: ("depthwise", nn.Conv2d(channels, channels, 3, stride, 1, groups=channels, bias=bias)),
        lambda: ("dilated", nn.Conv2d(channels, out, 3, 1, 2, dilation=2, bias=bias)),
        lambda: ("transposed", nn.ConvTranspose2d(channels, out, size + stride - 1, stride, pad, bias=bias)),
        lambda: ("batch_norm", nn.BatchNorm2d(channels)), lambda: ("batch_norm", nn.BatchNorm2d(channels)),
        lambda: ("group_norm", nn.GroupNorm(groups, channels)), lambda: ("max_pool", nn.MaxPool2d(2)),
        lambda: ("max_pool", nn.MaxPool2d(3, 2, 1)), lambda: ("avg_pool", nn.AvgPool2d(2)),
        lambda: ("adaptive", nn.AdaptiveAvgPool2d(r.randint(1, 3))), lambda: ("flat", nn.Flatten()),
        lambda: ("nearest", nn.Upsample(scale_factor=2)),
        lambda: ("tokens", lambda v: v.flatten(2).transpose(1, 2)),
        lambda: ("instance_norm", nn.InstanceNorm2d(channels, affine=True)),
        lambda: ("padded", nn.ZeroPad2d((1, 0, 2, 1))),
    ]  # fmt: skip
    draw.add(*r.choice(kinds)(), source)


class Heads(nn.Module):
    """Attention of several heads to itself."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        batch, steps, width = x.shape
        parts = self.qkv(x).view(batch, steps, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(*parts.unbind(0), is_causal=self.causal)
        return self.out(seen.transpose(1, 2).reshape(batch, steps, width))


class Cells(nn.Module):
    """A gated recurrent layer written in steps."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.hidden, self.into, self.again = hidden, nn.Linear(width, 2 * hidden), nn.Linear(hidden, 2 * hidden)

    def forward(self, x: Any) -> Any:
        h, found = torch.zeros(x.shape[0], self.hidden, dtype=x.dtype), []
        for step in range(min(x.shape[1], 5)):
            gate, value = (self.into(x[:, step]) + self.again(h)).chunk(2, -1)
            h = torch.sigmoid(gate) * h + (1 - torch.sigmoid(gate)) * torch.tanh(value)
            found.append(h)
        return torch.stack(found, 1)


def _sequence(draw: Drawing, source: int) -> None:
    """A layer of sequences [N, T, D]."""
    x, r = draw.values[source], draw.rng
    width, out = x.shape[2], draw.size(40)
    heads = draw.choice([h for h in (1, 2, 3, 4) if width % h == 0])
    causal = r.random() < 0.5
    kinds: list[Callable[[], tuple[str, Any]]] = [
        lambda: ("linear", nn.Linear(width, out, bias=r.random() < 0.7)), lambda: ("linear", nn.Linear(width, out)),
        lambda: ("layer_norm", nn.LayerNorm(width)), lambda: ("layer_norm", nn.LayerNorm(width)),
        lambda: (f"attention{heads}{' causal' if causal else ''}", Heads(width, heads, causal)),
        lambda: ("wide", nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))),
        lambda: ("conv1d", nn.Conv1d(x.shape[1], out, 3, padding=1)), lambda: ("cells", Cells(width, out)),
        lambda: ("mean", lambda v: v.mean(1)), lambda: ("turned", lambda v: v.transpose(1, 2)),
        lambda: ("first", lambda v: v[:, 0]), lambda: ("scores", lambda v: torch.bmm(v, v.transpose(1, 2)) * 0.2),
        lambda: ("rms_norm", nn.RMSNorm(width)), lambda: ("flat", nn.Flatten()),
    ]  # fmt: skip
    draw.add(*r.choice(kinds)(), source)


def _matrix(draw: Drawing, source: int) -> None:
    """A layer of rows [N, D]."""
    x, r = draw.values[source], draw.rng
    width, out = x.shape[1], draw.size(64)
    kinds: list[Callable[[], tuple[str, Any]]] = [
        lambda: ("linear", nn.Linear(width, out, bias=r.random() < 0.7)), lambda: ("linear", nn.Linear(width, out)),
        lambda: ("square linear", nn.Linear(width, width)), lambda: ("batch_norm", nn.BatchNorm1d(width)),
        lambda: ("layer_norm", nn.LayerNorm(width)), lambda: ("products", lambda v: v @ v.T * 0.1),
        lambda: ("glu", lambda v: F.glu(v, 1)), lambda: ("prelu", nn.PReLU()),
    ]  # fmt: skip
    draw.add(*r.choice(kinds)(), source)


# ---------------------------------------------------------------------------------------------------------- whole
def _begin(draw: Drawing) -> Any:
    """The input, and tokens looked up in a table at times."""
    r, batch = draw.rng, draw.rng.randint(2, 6)
    kind = r.choice(["image", "image", "sequence", "sequence", "tokens", "matrix"])
    if kind == "image":
        x = torch.randn(batch, draw.size(8), r.randint(4, 14), r.randint(4, 14))
    elif kind == "sequence":
        x = torch.randn(batch, draw.size(12), draw.size(40))
    elif kind == "matrix":
        x = torch.randn(batch * 3, draw.size(70))
    else:
        tokens = r.randint(3, 40)
        x = torch.randint(tokens, (batch, r.randint(1, 9)))
        draw.values.append(x)
        draw.add("embedding", nn.Embedding(tokens, draw.size(40)), 0)
        return x
    draw.values.append(x)
    return x


def _end(draw: Drawing) -> Any:
    """The loss of the last value as rows, and its target."""
    draw.add("rows", lambda v: v.flatten(1), len(draw.values) - 1)
    last = draw.values[-1]
    rows, columns = last.shape
    kinds = ["cross_entropy", "smoothed", "mean square", "binary", "huber", "nll"] if columns > 1 else ["mean square"]
    kind = draw.choice(kinds)
    target = torch.randint(columns, (rows,)) if kind in kinds[:2] + kinds[5:] else torch.rand(rows, columns)
    losses: dict[str, Callable[[Any, Any], Any]] = {
        "cross_entropy": F.cross_entropy, "mean square": F.mse_loss, "binary": F.binary_cross_entropy_with_logits,
        "huber": F.smooth_l1_loss, "smoothed": lambda a, t: F.cross_entropy(a, t, label_smoothing=0.1),
        "nll": lambda a, t: F.nll_loss(F.log_softmax(a, 1), t, reduction="sum") * 0.1,
    }  # fmt: skip
    draw.network.steps.append((kind, losses[kind], (len(draw.values) - 1,)))
    return target


def draw_network(seed: int) -> tuple[Network, Any, Any]:
    """The network of a seed in float32, ready for training, an input and a target."""
    draw = Drawing(seed)
    x = _begin(draw)
    while len(draw.values) < 2 + draw.rng.randint(2, 11):
        recent = len(draw.values) - 1 - (draw.rng.randrange(3) if draw.rng.random() < 0.25 else 0)
        floats = [i for i, v in enumerate(draw.values) if v.is_floating_point()]
        draw.layer(recent if recent in floats else floats[-1])
    target = _end(draw)
    for parameter in draw.network.parameters():
        if draw.rng.random() < 0.05:
            parameter.requires_grad_(False)
    network = draw.network.train()
    if not x.is_floating_point() and not copy.deepcopy(network)(x, target).requires_grad:
        return draw_network(seed + 1_000_000)  # nothing to differentiate by
    return network, x, target
