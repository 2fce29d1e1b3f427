"""A decoder in PyTorch as language models have it: RMSNorm, rotary positions, SwiGLU, head and embedding share weights.

Exported to ONNX twice: a window of tokens with all its logits, and a step with a cache of keys and values.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTH, LAYERS, HEADS, INNER, WINDOW = 256, 4, 4, 704, 256
SIZE = WIDTH // HEADS


class Attention(nn.Module):
    """Causal attention of all heads; keys and values of earlier tokens come in and go out."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(
        self, x: Tensor, turns: tuple[Tensor, Tensor], mask: Tensor, past: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The result for `x` [1, length, width], and keys and values [2, batch, heads, all, size]."""
        batch, length, _ = x.shape
        query, key, value = (
            one(x).reshape(batch, length, HEADS, SIZE).transpose(1, 2) for one in (self.query, self.key, self.value)
        )
        query, key = _turned(query, *turns), _turned(key, *turns)
        both = torch.stack([key, value])
        if past is not None:
            both = torch.cat([past, both], dim=3)
        scores = query @ both[0].transpose(-1, -2) * SIZE**-0.5 + mask
        mixed = torch.softmax(scores, dim=-1) @ both[1]
        return self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH)), both


def _turned(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    left, right = x[..., : SIZE // 2], x[..., SIZE // 2 :]
    return torch.cat([left * cosine - right * sine, right * cosine + left * sine], dim=-1)


class Norm(nn.Module):
    """x / sqrt(mean(x^2)) * weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        """The normalized rows."""
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Layer(nn.Module):
    """Attention and a gated layer, each added to what it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_gate = Norm(), Norm()
        self.attention = Attention()
        self.gate, self.up = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, WIDTH, bias=False)

    def forward(
        self, x: Tensor, turns: tuple[Tensor, Tensor], mask: Tensor, past: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The result, and keys and values."""
        mixed, both = self.attention(self.before_attention(x), turns, mask, past)
        x = x + mixed
        y = self.before_gate(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y)), both


class Decoder(nn.Module):
    """Tokens int64[batch, length] to logits float32[batch, length, vocabulary]."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, WIDTH)
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.last = Norm()
        #: Weights of the head where they are not those of the embedding.
        self.head: nn.Parameter | None = None
        angles = torch.arange(4 * WINDOW)[:, None] / 10000.0 ** (torch.arange(0, SIZE, 2) / SIZE)
        self.register_buffer("cosine", angles.cos(), persistent=False)
        self.register_buffer("sine", angles.sin(), persistent=False)
        for one in self.parameters():
            if one.ndim == 2:
                nn.init.normal_(one, std=0.02)
        for layer in self.layers:
            for one in (layer.attention.out, layer.down):
                nn.init.normal_(one.weight, std=0.02 / (2 * LAYERS) ** 0.5)

    def forward(self, tokens: Tensor, past: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Logits, and the keys and values [layers, 2, batch, heads, all, size] that are the `past` of the next call."""
        length = tokens.shape[1]
        begin = 0 if past is None else past.shape[4]
        rows = torch.arange(begin, begin + length, device=tokens.device)
        columns = torch.arange(begin + length, device=tokens.device)
        mask = torch.where(columns[None] > rows[:, None], float("-inf"), 0.0)
        turns = self.cosine[rows], self.sine[rows]
        x = self.embedding(tokens)
        kept = []
        for number, layer in enumerate(self.layers):
            x, both = layer(x, turns, mask, None if past is None else past[number])
            kept.append(both)
        head = self.embedding.weight if self.head is None else self.head
        return self.last(x) @ head.T, torch.stack(kept)


class _Scores(nn.Module):
    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, tokens: Tensor) -> Tensor:
        return self.decoder(tokens)[0]


def export(decoder: Decoder, folder: Path) -> None:
    """Write model.onnx (a window) and step.onnx (one token, with a cache of symbolic length)."""
    decoder = decoder.float().eval()
    window = torch.zeros(1, WINDOW, dtype=torch.int64)
    torch.onnx.export(
        _Scores(decoder), (window,), folder / "model.onnx", input_names=["tokens"], output_names=["logits"],
        dynamo=True, external_data=False, verbose=False,
    )  # fmt: skip
    past = torch.zeros(LAYERS, 2, 1, HEADS, 3, SIZE)
    length = torch.export.Dim("length", min=1, max=4 * WINDOW - 1)
    torch.onnx.export(
        decoder, (window[:, :1], past), folder / "step.onnx", input_names=["tokens", "past"],
        output_names=["logits", "present"], dynamic_shapes=(None, {4: length}), dynamo=True, external_data=False,
        verbose=False,
    )  # fmt: skip
