"""Programs of `torch_dropin.py` about memory: views, copies that are none, layouts, writes; some drawn at random."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch_dropin_way import Program, Way

#: name -> (function of tensors, shapes of these)
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {}


def entry(*shapes: tuple[int, ...]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function of tensors of these shapes under its name."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        FUNCTIONS[function.__name__] = (function, shapes)
        return function

    return enter


def _short(name: str, function: Callable[..., Any], *shapes: tuple[int, ...]) -> None:
    FUNCTIONS[name] = (function, shapes)


_short("result_and_its_contiguous", lambda x: (y := x + 1, y.contiguous()), (4, 5))
_short("result_and_its_clone", lambda x: (y := x + 1, y.clone()), (4, 5))
_short("result_and_its_view", lambda x: (y := x + 1, y.view(-1)), (4, 5))
_short("result_and_its_reshape", lambda x: (y := x.t() + 1, y.reshape(-1)), (4, 5))
_short("rows_of_a_result", lambda x: (y := x * 2, y[0], y[1:], y[:, ::2])[1:], (4, 6))
_short("one_column_of_a_result", lambda x: (x * 2)[:, 1], (4, 6))
_short("last_step", lambda x: torch.tanh(x)[:, -1], (2, 5, 3))
_short("unbound", lambda x: (x + 1).unbind(0), (3, 4))
_short("chunks", lambda x: (x @ x.t()).chunk(3, 1), (6, 6))
_short("split_by_sizes", lambda x: (x + 1).split([1, 2, 3], 1), (3, 6))
_short("chunks_of_an_input", lambda x: x.chunk(2, 1), (3, 6))
_short("expanded", lambda x: (x + 1).expand(4, 3, 5), (1, 5))
_short("expanded_scalar", lambda x: (x.sum() * 2).expand(3, 2), (3,))
_short("expanded_input", lambda x: x[None].expand(4, 3), (3,))
_short("broadcast_pair", lambda x, y: torch.broadcast_tensors(x + 1, y * 2), (3, 1), (1, 4))
_short("transposed", lambda x: x.t() + 1, (3, 5))
_short("transposed_input", lambda x: x.t(), (3, 5))
_short("transposed_and_result", lambda x: (y := x * 3, y.t()), (3, 5))
_short("permuted", lambda x: x.permute(2, 0, 1) * 2, (2, 3, 4))
_short("permuted_clone", lambda x: x.permute(2, 0, 1).clone(), (2, 3, 4))
_short("permuted_contiguous", lambda x: x.permute(2, 0, 1).contiguous(), (2, 3, 4))
_short("permuted_twice", lambda x: (x.permute(2, 0, 1) + 1).permute(1, 2, 0), (2, 3, 4))
_short("sum_of_orders", lambda x, y: x + y.t(), (4, 5), (5, 4))
_short("product_of_transposed", lambda x, y: x.t() @ y, (4, 5), (4, 3))
_short("product_transposed", lambda x, y: (x @ y).t(), (4, 5), (5, 3))
_short("batched_product", lambda x, y: torch.bmm(x, y.transpose(1, 2)), (2, 3, 4), (2, 5, 4))
_short("heads", lambda x: (x @ x.mT).view(2, 3, 1, 3).transpose(1, 2), (2, 3, 4))
_short("linear_of_steps", lambda x, w: F.linear(x, w), (2, 3, 4), (5, 4))
_short("linear_transposed", lambda x, w: F.linear(x.transpose(0, 1), w), (2, 3, 4), (5, 4))
_short("einsum", lambda x, y: torch.einsum("bij,bkj->kbi", x, y), (2, 3, 4), (2, 5, 4))
_short("channels_last", lambda x: x.to(memory_format=torch.channels_last) + 1, (2, 3, 4, 5))
_short("channels_last_alone", lambda x: x.to(memory_format=torch.channels_last), (2, 3, 4, 5))
_short(
    "channels_last_and_back", lambda x: (x.contiguous(memory_format=torch.channels_last) * 2).contiguous(), (2, 3, 4, 5)
)
_short("one_channel_last", lambda x: x.to(memory_format=torch.channels_last) * 2, (2, 1, 4, 5))
_short("channels_last_3d", lambda x: x.to(memory_format=torch.channels_last_3d).relu(), (1, 2, 3, 4, 5))
_short(
    "channels_last_flat",
    lambda x: (x.to(memory_format=torch.channels_last) * 2).permute(0, 2, 3, 1).view(2, 20, 3),
    (2, 3, 4, 5),
)
_short(
    "conv_channels_last",
    lambda x, w: F.conv2d(x.to(memory_format=torch.channels_last), w).relu(),
    (2, 3, 6, 6),
    (4, 3, 3, 3),
)
_short(
    "conv_weights_last", lambda x, w: F.conv2d(x, w.to(memory_format=torch.channels_last)), (2, 3, 6, 6), (4, 3, 3, 3)
)
_short("pool_channels_last", lambda x: F.max_pool2d(x.to(memory_format=torch.channels_last), 2), (2, 3, 6, 6))
_short(
    "mean_pool_channels_last", lambda x: F.adaptive_avg_pool2d(x.to(memory_format=torch.channels_last), 2), (2, 3, 6, 6)
)
_short("norm_channels_last", lambda x: F.group_norm(x.to(memory_format=torch.channels_last), 2), (2, 4, 6, 6))
_short(
    "resized_channels_last",
    lambda x: F.interpolate(x.to(memory_format=torch.channels_last), scale_factor=2),
    (1, 3, 4, 4),
)
_short(
    "resized_bilinear_last",
    lambda x: F.interpolate(x.to(memory_format=torch.channels_last), size=(7, 5), mode="bilinear"),
    (1, 3, 4, 4),
)
_short("padded_channels_last", lambda x: F.pad(x.to(memory_format=torch.channels_last), (1, 1, 1, 1)), (1, 3, 4, 4))
_short("softmax_channels_last", lambda x: x.to(memory_format=torch.channels_last).softmax(1), (2, 3, 4, 4))
_short("joined_channels_last", lambda x: torch.cat([x.to(memory_format=torch.channels_last)] * 2, 1), (2, 3, 4, 4))
_short("dropped_axis_last", lambda x: x.to(memory_format=torch.channels_last).sum(2), (2, 3, 4, 5))
_short("pixels_shuffled", lambda x: F.pixel_shuffle(x * 2, 2), (1, 8, 3, 3))
_short("like_transposed", lambda x: (torch.zeros_like(x.t()), torch.empty_like(x.t()).fill_(2)), (3, 4))
_short("where_transposed", lambda x: torch.where(x.t() > 0, x.t(), 0.0), (3, 4))
_short("compared_transposed", lambda x: x.t() > 0, (3, 4))
_short("cast_transposed", lambda x: (x.t().double(), x.t().to(torch.bfloat16)), (3, 4))
_short("cast_to_itself", lambda x: (x.float(), (x + 1).float()), (3, 4))
_short("summed_of_permuted", lambda x: x.permute(2, 1, 0).sum(1), (2, 3, 4))
_short("sorted_transposed", lambda x: torch.sort(x.t(), 0), (3, 4))
_short("largest_of_transposed", lambda x: torch.topk(x.t(), 2, 0), (3, 4))
_short("normed_transposed", lambda x: F.layer_norm(x.transpose(0, 1) * 2, (4,)), (2, 3, 4))
_short("indexed", lambda x: (x.t()[[0, 2]], x[:, [1, 0]], x[None, [0]]), (3, 4))
_short("picked", lambda x: x.permute(1, 2, 0).index_select(1, torch.tensor([1, 0])), (2, 3, 4))
_short("gathered", lambda x: x.t().gather(0, torch.zeros(2, 3, dtype=torch.int64)), (3, 4))
_short("flipped", lambda x: (x.t().flip(0), x.t().roll(1, 0)), (3, 4))
_short("stacked", lambda x: (torch.stack([x.t(), x.t()]), torch.stack([x, x], -1)), (3, 4))
_short("repeated", lambda x: (x.t().repeat(1, 2), x.t().repeat_interleave(2, 0)), (3, 4))
_short("diagonals", lambda x: ((x + 1).diagonal(), torch.diag_embed(x), x.diagonal()), (4, 4))
_short("windows", lambda x: ((x + 1).unfold(0, 3, 2), x.unfold(0, 2, 1)), (7,))
_short("strided", lambda x: ((x + 1).as_strided((2, 3), (1, 2), 1), x.as_strided((2, 2), (2, 1))), (8,))
_short("squeezed", lambda x: ((x + 1).squeeze(1), x.unsqueeze(0), (x * 2).unsqueeze(-1)), (3, 1, 2))
_short("bits", lambda x: ((x + 1).view(torch.int32), x.view(torch.int32)), (3, 4))
_short("bytes_of_a_result", lambda x: (x + 1).view(torch.uint8), (3, 4))
_short("triangle_transposed", lambda x: (x.t().tril(), x.triu()), (4, 4))
_short("factors", lambda x: torch.linalg.qr(x), (4, 3))
_short("cholesky", lambda x: torch.linalg.cholesky(x @ x.t() + 4 * torch.eye(3)), (3, 3))
_short("solved", lambda x, y: torch.linalg.solve(x + 5 * torch.eye(3), y), (3, 3), (3, 2))
_short("inverse", lambda x: torch.linalg.inv(x + 5 * torch.eye(3)), (3, 3))
_short("singular_values", lambda x: torch.linalg.svdvals(x), (4, 3))
_short("attention", lambda q, k, v: F.scaled_dot_product_attention(q, k, v), (1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4))
_short(
    "attention_of_heads",
    lambda x: (
        F.scaled_dot_product_attention(*[x.view(2, 3, 2, 4).transpose(1, 2)] * 3).transpose(1, 2).reshape(2, 3, 8)
    ),
    (2, 3, 8),
)
_short("empty_rows", lambda x: (x[:0] + 1, x[:, 2:2].t() * 2, x[:0].sum(0)), (3, 4))
_short("empty_input", lambda x: (x + 1, x.t() * 2, x.sum(0), x.view(4, 0)), (0, 4))
_short("empty_product", lambda x, y: x @ y, (3, 0), (0, 4))
_short("scalars", lambda x: (x.sum(), x.mean() * 2, x[0, 0], x[0, 0] + 1), (3, 4))
_short("same_twice", lambda x: (y := x + 1, y, [y]), (3,))
_short("input_back", lambda x: (x, x + 1), (3,))
_short("input_back_twice", lambda x: (x, x, x.detach()), (3,))
_short("detached", lambda x: (y := x * 2, y.detach()), (3, 4))
_short("nested", lambda x: {"a": [x + 1, (x * 2,)], "b": {"c": x.t()}}, (3, 4))
_short("nothing_of_inputs", lambda x: (torch.zeros(3), torch.arange(4), torch.eye(2).t()), (3,))
_short("constant_expanded", lambda x: (torch.zeros(1).expand(3), x + torch.ones(1).expand(3)), (3,))
_short("full_like_expanded", lambda x: torch.ones_like(x.expand(3, 4)) * 2, (1, 4))
_short("expanded_times_two", lambda x: x.expand(3, 4) * 2, (1, 4))
_short("cumulated_transposed", lambda x: x.t().cumsum(0), (3, 4))
_short("lerped", lambda x, y: torch.lerp(x.t(), y.t(), 0.3), (3, 4), (3, 4))
_short("addcmul_transposed", lambda x, y: torch.addcmul(x.t(), y.t(), y.t()), (3, 4), (3, 4))
_short("clamped_transposed", lambda x: (x.t().clamp(min=0), x.t().relu(), F.gelu(x.t()), F.silu(x.t())), (3, 4))
_short("loss", lambda x, y: (F.mse_loss(x.t(), y.t()), F.l1_loss(x, y, reduction="none")), (3, 4), (3, 4))
_short("embedding", lambda w: F.embedding(torch.tensor([[0, 2], [1, 1]]), w), (3, 4))
_short("masked", lambda x: x.t().masked_fill(x.t() > 0, 0.0), (3, 4))
_short("moved", lambda x: torch.movedim(x + 1, 0, -1), (2, 3, 4))
_short("conv_1d", lambda x, w: F.conv1d(x.transpose(1, 2), w).transpose(1, 2), (2, 7, 3), (4, 3, 3))
_short(
    "batch_norm",
    lambda x: F.batch_norm(x.to(memory_format=torch.channels_last), None, None, training=True),
    (2, 3, 4, 4),
)
_short(
    "complex_parts", lambda x, y: (z := torch.complex(x, y), z.real, z.imag, z.conj(), z * z, z.abs()), (3, 4), (3, 4)
)
_short("complex_view", lambda x: (z := torch.view_as_complex(x * 2), torch.view_as_real(z), z.t()), (3, 4, 2))
_short("polar", lambda x, y: torch.polar(x.abs(), y), (3, 4), (3, 4))
_short("fourier", lambda x: (torch.fft.rfft(x), torch.fft.fft(x.t())), (4, 6))
_short("spectrum", lambda x: torch.stft(x, 8, window=torch.hann_window(8), return_complex=True).abs(), (32,))


@entry((3, 4))
def written_input(x: Any) -> Any:
    """The caller sees what is written."""
    y = x * 1
    y.add_(1)
    y[0] = 2
    y.t().mul_(2)
    return y, y[1]


@entry((3, 4))
def written_view_of_a_result(x: Any) -> Any:
    y = x.clone()
    row = y[0]
    row.fill_(7)
    return y, row


@entry((2, 3, 4, 4))
def view_after_channels_last(x: Any) -> Any:
    return F.relu(x.to(memory_format=torch.channels_last)).permute(0, 2, 3, 1)


def _leaves(value: Any) -> list[torch.Tensor]:
    return [one for one in torch.utils._pytree.tree_leaves(value) if isinstance(one, torch.Tensor)]


def _weighted(found: torch.Tensor) -> torch.Tensor:
    """A sum of squares that is not the same for all that is normalized."""
    found = torch.view_as_real(found.resolve_conj()) if found.is_complex() else found
    weights = (torch.arange(found.numel()) % 5 + 1).reshape(found.shape)
    return (found.square() * weights).sum().double()


def infer(function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...], dynamic: bool = False) -> Program:
    """The function under `no_grad`, and what `view` makes of its results."""

    def program(way: Way) -> Any:
        with torch.no_grad():
            compiled = way.compiled(function, **({"dynamic": True} if dynamic else {}))
            return compiled(*(way.draw(*shape) for shape in shapes))

    return program


def train(function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...]) -> Program:
    """The function and the gradients of the squares of its results."""

    def program(way: Way) -> Any:
        given = [way.draw(*shape, grad=True) for shape in shapes]
        found = way.compiled(function)(*given)
        wanted = [one for one in _leaves(found) if one.requires_grad]
        if not wanted:
            return found
        torch.stack([_weighted(one) for one in wanted]).sum().backward()
        return found, [one.grad for one in given]

    return program


PROGRAMS: dict[str, Program] = {}
for _name, (_function, _shapes) in FUNCTIONS.items():
    PROGRAMS[_name] = infer(_function, _shapes)
    PROGRAMS[f"{_name}, trained"] = train(_function, _shapes)
for _name in list(FUNCTIONS)[::4]:
    PROGRAMS[f"{_name}, open"] = infer(*FUNCTIONS[_name], dynamic=True)


def random_program(seed: int) -> Program:
    """Views, layouts and elementwise operators in an order drawn by `seed`, several of the values returned."""
    draw = random.Random(seed)
    steps = [(draw.randrange(14), draw.randrange(1 << 30), draw.randrange(1 << 30)) for _ in range(draw.randint(4, 10))]
    kept = [draw.randrange(1 << 30) for _ in range(draw.randint(1, 4))]
    shape = tuple(draw.choice((1, 2, 3, 4)) for _ in range(draw.choice((2, 3, 4))))

    def function(x: Any) -> Any:
        values = [x]
        for kind, which, how in steps:
            values.append(_step(kind, values[which % len(values)], how))
        return [values[which % len(values)] for which in kept]

    return (train if seed % 2 else infer)(function, (shape,))


def _step(kind: int, x: Any, how: int) -> Any:
    """One of some operators on `x`, with arguments from `how`."""
    axis = how % x.dim() if x.dim() else 0
    if not x.dim():
        return x + 1
    table: list[Callable[[], Any]] = [
        lambda: x + 1,
        lambda: x * 2 - x,
        lambda: x.transpose(axis, (how // 7) % x.dim()),
        lambda: x.flip(axis),
        lambda: x.select(axis, 0) if x.shape[axis] else x * 2,
        lambda: x.narrow(axis, x.shape[axis] // 2, x.shape[axis] - x.shape[axis] // 2),
        lambda: x.unsqueeze(axis),
        lambda: x.contiguous(),
        lambda: x.reshape(-1),
        lambda: x.clone(),
        lambda: x.unsqueeze(0).expand(2, *x.shape),
        lambda: x.sum(axis, keepdim=bool(how & 1)),
        lambda: x.to(memory_format=torch.channels_last) if x.dim() == 4 else x.permute(*reversed(range(x.dim()))),
        lambda: x.softmax(axis),
    ]
    return table[kind]()
