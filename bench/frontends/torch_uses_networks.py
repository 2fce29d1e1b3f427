"""Networks written out as users write them: diffusion, sound, segmentation, sequences, graphs, scenes."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch_uses_way import Way, program


class _Residual(nn.Module):
    """Two convolutions with group normalization, shifted by what is known of the time."""

    def __init__(self, before: int, after: int, time: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(4, before), nn.SiLU(), nn.Conv2d(before, after, 3, padding=1))
        self.time = nn.Linear(time, 2 * after)
        self.norm = nn.GroupNorm(4, after)
        self.second = nn.Conv2d(after, after, 3, padding=1)
        self.skip = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x: Any, time: Any) -> Any:
        scale, shift = self.time(F.silu(time))[:, :, None, None].chunk(2, dim=1)
        h = self.norm(self.first(x)) * (1 + scale) + shift
        return self.skip(x) + self.second(F.silu(h))


class _CrossAttention(nn.Module):
    """Attention of the positions of an image to themselves and to words."""

    def __init__(self, width: int, words: int, heads: int = 2) -> None:
        super().__init__()
        self.heads, self.norm = heads, nn.GroupNorm(4, width)
        self.q, self.k, self.v = nn.Linear(width, width), nn.Linear(words, width), nn.Linear(words, width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Any, words: Any) -> Any:
        b, c, h, w = x.shape
        positions = self.norm(x).flatten(2).transpose(1, 2)
        split = [
            part.view(b, -1, self.heads, c // self.heads).transpose(1, 2)
            for part in (self.q(positions), self.k(words), self.v(words))
        ]
        made = F.scaled_dot_product_attention(*split).transpose(1, 2).reshape(b, h * w, c)
        return x + self.out(made).transpose(1, 2).view(b, c, h, w)


class _Denoiser(nn.Module):
    """A U of two resolutions, as networks of diffusion have it."""

    def __init__(self, width: int = 8, words: int = 12) -> None:
        super().__init__()
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, 4 * width))
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList([_Residual(width, width, 4 * width), _Residual(width, 2 * width, 4 * width)])
        self.reduce = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.middle = _CrossAttention(2 * width, words)
        self.up = nn.ModuleList([_Residual(3 * width, width, 4 * width), _Residual(2 * width, width, 4 * width)])
        self.leave = nn.Sequential(nn.GroupNorm(4, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, x: Any, step: Any, words: Any) -> Any:
        half = self.width // 2
        rates = torch.exp(-math.log(10000.0) * torch.arange(half, device=x.device) / half).to(x.dtype)
        angles = step[:, None].to(x.dtype) * rates[None]
        time = self.time(torch.cat([angles.sin(), angles.cos()], dim=-1))
        first = self.enter(x)
        one = self.down[0](first, time)
        two = self.middle(self.down[1](self.reduce(one), time), words)
        wide = F.interpolate(torch.cat([two, self.reduce(one)], 1), size=one.shape[-2:], mode="nearest")
        made = self.up[1](torch.cat([self.up[0](wide, time), first], 1), time)
        return self.leave(made)


@program
def denoiser(way: Way) -> Any:
    """One call of a network of diffusion, and one with another resolution and batch."""
    net = way.compiled(way.wide(_Denoiser()).eval())
    with torch.no_grad():
        return [net(way.draw(b, 3, s, s), torch.arange(b) * 100 + 7, way.draw(b, 5, 12)) for b, s in ((2, 16), (1, 24))]


@program
def denoiser_exported(way: Way) -> Any:
    batch, side = torch.export.Dim("batch", min=1, max=8), torch.export.Dim("half", min=4, max=16)
    sizes = {"x": {0: batch, 2: 2 * side, 3: 2 * side}, "step": {0: batch}, "words": {0: batch}}
    net = way.exported(
        way.wide(_Denoiser()).eval(), (way.draw(2, 3, 16, 16), torch.tensor([3, 900]), way.draw(2, 5, 12)), sizes
    )
    with torch.no_grad():
        return [net(way.draw(b, 3, s, s), torch.arange(b), way.draw(b, 5, 12)) for b, s in ((2, 16), (3, 20), (1, 8))]


@program
def diffusion_sampling(way: Way) -> Any:
    """Five steps backwards through noise, with guidance, the step compiled."""
    net = way.wide(_Denoiser()).eval()
    betas = way.wide(torch.linspace(1e-4, 0.02, 50))
    kept = torch.cumprod(1 - betas, 0)

    @way.compiled
    def step(x: Any, t: Any, before: Any, words: Any, noise: Any) -> Any:
        both = net(torch.cat([x, x]), torch.stack([t, t]), torch.cat([words, torch.zeros_like(words)]))
        with_words, without = both.chunk(2)
        eps = without + 2.5 * (with_words - without)
        clean = ((x - (1 - kept[t]).sqrt() * eps) / kept[t].sqrt()).clamp(-1, 1)
        sigma = ((1 - kept[before]) / (1 - kept[t]) * (1 - kept[t] / kept[before])).sqrt()
        towards = (1 - kept[before] - sigma**2).clamp(min=0).sqrt() * eps
        return kept[before].sqrt() * clean + towards + sigma * noise

    x, words = way.draw(1, 3, 16, 16), way.draw(1, 5, 12)
    with torch.no_grad():
        for t in (49, 39, 29, 19, 9):
            x = step(x, torch.tensor(t), torch.tensor(max(t - 10, 0)), words, way.draw(1, 3, 16, 16))
    return x


@program
def variational_autoencoder(way: Way) -> Any:
    """Encoder, a draw around its mean, decoder by transposed convolutions, and the gradients of the bound."""

    class Autoencoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(nn.Conv2d(1, 8, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(8, 16, 4, 2, 1))
            self.mean, self.spread = nn.Linear(16 * 49, 6), nn.Linear(16 * 49, 6)
            self.back = nn.Linear(6, 16 * 49)
            self.decoder = nn.Sequential(
                nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(8, 1, 4, 2, 1)
            )

        def forward(self, x: Any, noise: Any) -> Any:
            h = self.encoder(x).relu().flatten(1)
            mean, spread = self.mean(h), self.spread(h)
            z = mean + noise * torch.exp(0.5 * spread)
            made = self.decoder(F.relu(self.back(z)).view(-1, 16, 7, 7))
            divergence = -0.5 * torch.sum(1 + spread - mean.pow(2) - spread.exp())
            return F.binary_cross_entropy_with_logits(made, x, reduction="sum") + divergence

    net = way.wide(Autoencoder())
    loss = way.compiled(net)(way.wide(torch.rand(3, 1, 28, 28)), way.draw(3, 6))
    loss.backward()
    return loss, [one.grad for one in net.parameters()]


def _mel(bins: int, count: int, rate: int) -> Any:
    """Triangles over frequencies, evenly apart in mel."""
    highest = 2595 * math.log10(1 + rate / 2 / 700)
    edges = 700 * (10 ** (torch.linspace(0, highest, count + 2) / 2595) - 1)
    positions = torch.linspace(0, rate / 2, bins)
    slopes = edges[None] - positions[:, None]
    falling, rising = slopes[:, 2:] / edges.diff()[1:], -slopes[:, :-2] / edges.diff()[:-1]
    return torch.minimum(falling, rising).clamp(min=0)


class _Spectrum(nn.Module):
    """Cepstral coefficients of a wave: spectrum, mel, decibels with a floor below the loudest, cosines."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(64))
        self.register_buffer("mel", _mel(33, 12, 8000))
        angles = math.pi / 12 * (torch.arange(12)[:, None] + 0.5) * torch.arange(6)
        self.register_buffer("cosines", torch.cos(angles) * math.sqrt(2 / 12))

    def forward(self, wave: Any) -> Any:
        spectrum = torch.stft(wave, 64, 16, window=self.window, center=True, return_complex=True, pad_mode="reflect")
        power = (spectrum.abs().pow(2).transpose(1, 2) @ self.mel).transpose(1, 2)
        decibels = 10 * torch.log10(power.clamp(min=1e-10))
        decibels = torch.maximum(decibels, decibels.amax(dim=(-2, -1), keepdim=True) - 80)
        return decibels.transpose(1, 2) @ self.cosines, torch.angle(spectrum[:, 3:6]).cos()


@program
def cepstrum(way: Way) -> Any:
    net = way.compiled(way.wide(_Spectrum()))
    return [net(way.draw(b, n)) for b, n in ((2, 400), (2, 480), (3, 480))]


@program
def cepstrum_exported(way: Way) -> Any:
    net = way.exported(way.wide(_Spectrum()), (way.draw(2, 400),), {"wave": {0: torch.export.Dim("batch")}})
    return [net(way.draw(b, 400)) for b in (2, 5)]


@program
def phases_from_magnitudes(way: Way) -> Any:
    """Waves found from magnitudes by going to time and back with momentum."""
    window = way.wide(torch.hann_window(32))

    @way.compiled
    def find(magnitude: Any, angles: Any) -> Any:
        before = torch.zeros_like(angles)
        for _ in range(3):
            wave = torch.istft(magnitude * angles, 32, 8, window=window, length=200)
            again = torch.stft(wave, 32, 8, window=window, return_complex=True)
            angles = again - before * (0.99 / 1.99)
            before = again
            angles = angles / (angles.abs() + 1e-12)
        return torch.istft(magnitude * angles, 32, 8, window=window, length=200)

    spectrum = torch.stft(way.draw(2, 200), 32, 8, window=window, return_complex=True)
    return find(spectrum.abs(), torch.polar(torch.ones_like(spectrum.real), spectrum.real))


@program
def resampling(way: Way) -> Any:
    """A wave at 3/2 of its rate by windowed sines, strided convolutions of several phases, and one filter in time."""

    @way.compiled
    def resample(wave: Any) -> Any:
        width = 8
        positions = torch.arange(-width, width + 2, dtype=wave.dtype)[None, None] / 2
        t = (torch.arange(0, -3, -1, dtype=wave.dtype)[:, None, None] / 3 + positions).clamp(-6, 6) * 0.9 * math.pi
        kernel = torch.where(t == 0, torch.ones_like(t), t.sin() / t) * torch.cos(t / math.pi / 12 * math.pi) ** 2
        padded = F.pad(wave, (width, width + 2))
        made = F.conv1d(padded[:, None], kernel, stride=2).transpose(1, 2).reshape(wave.shape[0], -1)
        return made[..., : math.ceil(3 * wave.shape[-1] / 2)]

    return [resample(way.draw(2, n)) for n in (50, 61, 80)]


@program
def separation_of_sounds(way: Way) -> Any:
    """A network over time: learned transform, dilated depthwise convolutions with skips, masks, the way back."""

    class Block(nn.Module):
        def __init__(self, dilation: int) -> None:
            super().__init__()
            self.inner = nn.Sequential(
                nn.Conv1d(8, 16, 1), nn.PReLU(), nn.GroupNorm(1, 16, eps=1e-8),
                nn.Conv1d(16, 16, 3, padding=dilation, dilation=dilation, groups=16), nn.PReLU(),
                nn.GroupNorm(1, 16, eps=1e-8),
            )  # fmt: skip
            self.rest, self.skip = nn.Conv1d(16, 8, 1), nn.Conv1d(16, 8, 1)

        def forward(self, x: Any) -> Any:
            made = self.inner(x)
            return x + self.rest(made), self.skip(made)

    class Separator(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter = nn.Conv1d(1, 8, 16, stride=8, bias=False)
            self.blocks = nn.ModuleList([Block(2**depth) for depth in range(3)])
            self.masks, self.leave = nn.Conv1d(8, 16, 1), nn.ConvTranspose1d(8, 1, 16, stride=8, bias=False)

        def forward(self, wave: Any) -> Any:
            rest = (wave.shape[-1] - 16) % 8
            padded = F.pad(wave, (8, (8 - rest) % 8 + 8))
            x = h = self.enter(padded)
            total: Any = 0
            for block in self.blocks:
                h, skip = block(h)
                total = total + skip
            masks = torch.sigmoid(self.masks(F.prelu(total, torch.full_like(total[0, :1, 0], 0.25))))
            parts = masks.view(x.shape[0], 2, 8, -1) * x[:, None]
            made = self.leave(parts.flatten(0, 1)).view(x.shape[0], 2, -1)
            return made[..., 8 : 8 + wave.shape[-1]]

    net = way.compiled(way.wide(Separator()).eval())
    with torch.no_grad():
        return [net(way.draw(2, 1, n)) for n in (160, 203, 161)]


@program
def conformer(way: Way) -> Any:
    """Half feed-forwards, attention that does not see padding, gated depthwise convolutions; its training step."""

    class Layer(nn.Module):
        def __init__(self, width: int = 8) -> None:
            super().__init__()
            self.feeds = nn.ModuleList(
                nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 16), nn.SiLU(), nn.Linear(16, width))
                for _ in range(2)
            )
            self.attention, self.norm = nn.MultiheadAttention(width, 2, batch_first=True), nn.LayerNorm(width)
            self.gate, self.depth = nn.Conv1d(width, 2 * width, 1), nn.Conv1d(width, width, 5, padding=2, groups=width)
            self.batch, self.point = nn.BatchNorm1d(width), nn.Conv1d(width, width, 1)

        def forward(self, x: Any, lengths: Any) -> Any:
            padding = torch.arange(x.shape[1])[None] >= lengths[:, None]
            x = x + 0.5 * self.feeds[0](x)
            y = self.norm(x)
            x = x + self.attention(y, y, y, key_padding_mask=padding, need_weights=False)[0]
            y = F.glu(self.gate(x.masked_fill(padding[..., None], 0).transpose(1, 2)), dim=1)
            x = x + self.point(F.silu(self.batch(self.depth(y)))).transpose(1, 2)
            return x + 0.5 * self.feeds[1](x)

    net, lengths = way.wide(Layer()), torch.tensor([9, 5])
    run = way.compiled(net)
    made = run(way.draw(2, 9, 8), lengths)
    (made[0].square().mean() + made[1, :5].square().mean()).backward()
    net.eval()
    with torch.no_grad():
        return run(way.draw(2, 9, 8), lengths)[0], [one.grad for one in net.parameters()], list(net.buffers())


@program
def segmentation(way: Way) -> Any:
    """Atrous convolutions of several rates, pyramids of pooled planes, skips, and the classes at full size."""

    class Segmenter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.Hardswish())
            self.deep = nn.Sequential(nn.Conv2d(8, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU6())
            self.rates = nn.ModuleList(nn.Conv2d(16, 4, 3, padding=rate, dilation=rate) for rate in (1, 2, 4))
            self.pools = nn.ModuleList(
                nn.Sequential(nn.AdaptiveAvgPool2d(size), nn.Conv2d(16, 4, 1), nn.ReLU()) for size in (1, 2, 3)
            )
            self.skip, self.leave = nn.Conv2d(8, 4, 1), nn.Conv2d(28, 5, 3, padding=1)

        def forward(self, x: Any) -> dict[str, Any]:
            shallow = self.body(x)
            deep = self.deep(shallow)
            wide = [rate(deep) for rate in self.rates]
            for pool in self.pools:
                wide.append(F.interpolate(pool(deep), size=deep.shape[-2:], mode="bilinear", align_corners=False))
            joined = F.interpolate(torch.cat(wide, 1), size=shallow.shape[-2:], mode="bilinear", align_corners=True)
            made = self.leave(torch.cat([joined, self.skip(shallow)], 1))
            full = F.interpolate(made, size=x.shape[-2:], mode="bicubic", align_corners=False)
            return {"out": full, "labels": full.argmax(1), "probabilities": full.softmax(1).amax(1)}

    net = way.compiled(way.wide(Segmenter()).eval())
    with torch.no_grad():
        return [net(way.draw(b, 3, h, w)) for b, h, w in ((1, 32, 40), (2, 32, 40), (1, 45, 37))]


@program
def u_of_odd_sizes(way: Way) -> Any:
    """A U whose ways up are cropped or padded to those down; cross entropy with ignored positions, dice, gradients."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)
            self.up, self.leave = nn.ConvTranspose2d(8, 4, 2, stride=2), nn.Conv2d(8, 3, 1)
            self.norm = nn.InstanceNorm2d(8, affine=True)

        def forward(self, x: Any) -> Any:
            one = F.leaky_relu(self.one(x))
            up = self.up(F.elu(self.norm(self.two(F.max_pool2d(one, 2)))))
            up = F.pad(up, (0, one.shape[-1] - up.shape[-1], 0, one.shape[-2] - up.shape[-2]), mode="replicate")
            return self.leave(torch.cat([one, up], 1))

    net = way.wide(Net())

    @way.compiled
    def loss(x: Any, labels: Any) -> Any:
        made = net(x)
        known = labels != 255
        one_hot = F.one_hot(labels.where(known, 0), 3).permute(0, 3, 1, 2).to(made.dtype) * known[:, None]
        p = made.softmax(1) * known[:, None]
        dice = 1 - (2 * (p * one_hot).sum((0, 2, 3)) + 1) / ((p + one_hot).sum((0, 2, 3)) + 1)
        return F.cross_entropy(made, labels, ignore_index=255, label_smoothing=0.1) + dice.mean()

    labels = torch.randint(0, 3, (2, 13, 11))
    labels[0, :3] = 255
    value = loss(way.draw(2, 1, 13, 11), labels)
    value.backward()
    return value, [one.grad for one in net.parameters()]


@program
def words_with_attention(way: Way) -> Any:
    """An encoder of GRUs, and a decoder that attends to it and feeds back the word that it thinks likeliest."""

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.gru = nn.Embedding(11, 8), nn.GRU(16, 8, batch_first=True)
            self.a, self.b, self.v, self.out = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 1), nn.Linear(8, 11)

        def forward(self, seen: Any, hidden: Any, steps: int) -> Any:
            word, results = torch.zeros(seen.shape[0], 1, dtype=torch.long), []
            for _ in range(steps):
                scores = self.v(torch.tanh(self.a(hidden.permute(1, 0, 2)) + self.b(seen))).squeeze(2).unsqueeze(1)
                context = torch.bmm(scores.softmax(-1), seen)
                made, hidden = self.gru(torch.cat((self.words(word), context), 2), hidden)
                results.append(self.out(made))
                word = results[-1].topk(1)[1].squeeze(-1).detach()
            return F.log_softmax(torch.cat(results, 1), dim=-1), hidden

    encoder, words, decoder = nn.GRU(8, 8, batch_first=True), nn.Embedding(11, 8), Decoder()
    encoder, words, decoder = (way.wide(one).eval() for one in (encoder, words, decoder))

    @way.compiled
    def translate(text: Any) -> Any:
        seen, hidden = encoder(words(text))
        return decoder(seen, hidden, 4)

    with torch.no_grad():
        return [translate(torch.randint(0, 11, (b, n))) for b, n in ((3, 6), (2, 6))]


@program
def transformer_of_words(way: Way) -> Any:
    """nn.Transformer with masks of both kinds and tied weights, in inference and with gradients."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(13, 8, padding_idx=0)
            positions = torch.arange(16)[:, None] * torch.exp(torch.arange(0, 8, 2) * (-math.log(1e4) / 8))
            self.register_buffer("positions", torch.stack([positions.sin(), positions.cos()], -1).flatten(1))
            self.transformer = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True)
            self.out = nn.Linear(8, 13)
            self.out.weight = self.words.weight

        def forward(self, source: Any, target: Any) -> Any:
            embed = [self.words(one) * math.sqrt(8) + self.positions[: one.shape[1]] for one in (source, target)]
            mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], dtype=embed[0].dtype)
            made = self.transformer(
                *embed, tgt_mask=mask, src_key_padding_mask=source == 0, memory_key_padding_mask=source == 0
            )
            return self.out(made)

    net = way.wide(Model())
    source = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 2, 0, 0]])
    target = torch.tensor([[1, 4, 2, 6], [1, 9, 2, 5]])
    run = way.compiled(net)
    F.cross_entropy(run(source, target[:, :-1]).flatten(0, 1), target[:, 1:].flatten(), ignore_index=0).backward()
    net.eval()
    with torch.no_grad():
        return run(source, target), [one.grad for one in net.parameters()]


@program
def where_to_look(way: Way) -> Any:
    """A spatial transformer: a small network that says by which affine map the image is read."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.position = nn.Sequential(nn.Conv2d(1, 4, 5), nn.MaxPool2d(2, 2), nn.ReLU(True), nn.Flatten())
            self.map, self.leave = nn.Linear(4 * 36, 6), nn.Conv2d(1, 2, 3)
            nn.init.normal_(self.map.weight, std=0.01)
            self.map.bias.data.copy_(torch.tensor([1, 0.1, 0, -0.1, 0.9, 0.05]))

        def forward(self, x: Any) -> Any:
            grid = F.affine_grid(self.map(self.position(x)).view(-1, 2, 3), list(x.shape), align_corners=False)
            return self.leave(F.grid_sample(x, grid, align_corners=False, padding_mode="border"))

    net = way.wide(Net())
    x = way.draw(2, 1, 16, 16).requires_grad_()
    made = way.compiled(net)(x)
    made.square().mean().backward()
    return made, x.grad, [one.grad for one in net.parameters()]


@program
def messages_on_a_graph(way: Way) -> Any:
    """Attention over the edges of a graph: softmax over those that end in a node, sums, maxima and means."""

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.a = nn.Linear(5, 8, bias=False), nn.Linear(16, 1)

        def forward(self, x: Any, edges: Any) -> Any:
            start, end = edges
            h = self.w(x)
            score = F.leaky_relu(self.a(torch.cat([h[start], h[end]], -1)).squeeze(-1), 0.2)
            most = torch.full((x.shape[0],), -torch.inf, dtype=x.dtype).scatter_reduce(0, end, score, "amax")
            weight = (score - most[end]).exp()
            total = torch.zeros(x.shape[0], dtype=x.dtype).scatter_add(0, end, weight)
            made = torch.zeros_like(h).index_add_(0, end, h[start] * (weight / (total[end] + 1e-16))[:, None])
            mean = torch.zeros_like(h).index_reduce(0, end, h[start], "mean", include_self=False)
            return torch.cat([F.elu(made), mean], -1), torch.bincount(end, minlength=x.shape[0])

    net = way.wide(Layer())
    run = way.compiled(net)
    results = [run(way.draw(n, 5), torch.randint(0, n, (2, e))) for n, e in ((7, 20), (7, 26), (9, 30))]
    results[0][0].square().sum().backward()
    return results, [one.grad for one in net.parameters()]


@program
def rays_through_a_scene(way: Way) -> Any:
    """Points on rays, encoded by sines, densities along each ray composed; finer points where the first were dense."""
    field = way.wide(nn.Sequential(nn.Linear(15, 16), nn.Softplus(), nn.Linear(16, 4)))

    @way.compiled
    def render(start: Any, towards: Any, draws: Any) -> Any:
        def composed(depths: Any) -> Any:
            points = start[:, None] + towards[:, None] * depths[..., None]
            waves = [f(points * 2**power) for power in range(2) for f in (torch.sin, torch.cos)]
            made = field(torch.cat([points, *waves], -1))
            gaps = torch.cat([depths.diff(dim=-1), torch.full_like(depths[..., :1], 1e3)], -1)
            alpha = 1 - torch.exp(-F.relu(made[..., 3]) * gaps)
            through = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1), -1)[:, :-1]
            weights = alpha * through
            return (weights[..., None] * made[..., :3].sigmoid()).sum(-2), weights

        coarse = torch.linspace(1, 4, 8, dtype=start.dtype).expand(start.shape[0], 8)
        colour, weights = composed(coarse)
        share = (weights + 1e-5).detach()
        steps = torch.cumsum(share / share.sum(-1, keepdim=True), -1)
        position = torch.searchsorted(steps.contiguous(), draws, right=True).clamp(max=7)
        fine = torch.sort(torch.cat([coarse, torch.gather(coarse, 1, position) + draws * 0.1], -1), -1).values
        return colour, composed(fine)[0]

    made = render(way.draw(4, 3), F.normalize(way.draw(4, 3), dim=-1), way.wide(torch.rand(4, 8)))
    sum(one.square().sum() for one in made).backward()
    return made, [one.grad for one in field.parameters()]


@program
def clouds_of_points(way: Way) -> Any:
    """Neighbours by distance, edges between them, a learned rotation, maxima over points."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.edge = nn.Sequential(nn.Conv2d(6, 8, 1, bias=False), nn.BatchNorm2d(8), nn.LeakyReLU(0.2))
            self.turn, self.out = nn.Linear(8, 9), nn.Linear(16, 4)

        def forward(self, x: Any) -> Any:
            square = x.square().sum(-1)
            apart = square[:, :, None] - 2 * x @ x.mT + square[:, None]
            near = apart.topk(4, largest=False).indices
            b, n, _ = x.shape
            rows = (near + torch.arange(b)[:, None, None] * n).view(-1)
            other = x.reshape(b * n, 3)[rows].view(b, n, 4, 3)
            mine = x[:, :, None].expand(-1, -1, 4, -1)
            h = self.edge(torch.cat([other - mine, mine], -1).permute(0, 3, 1, 2)).amax(-1)
            turn = self.turn(h.amax(-1)).view(b, 3, 3) + torch.eye(3, dtype=x.dtype)
            turned = torch.baddbmm(x, x, turn)
            return self.out(torch.cat([h.amax(-1), h.mean(-1)], -1)), turned, torch.cdist(turned, x).amin(-1)

    net = way.compiled(way.wide(Net()).eval())
    with torch.no_grad():
        return [net(way.draw(b, n, 3)) for b, n in ((2, 12), (3, 12), (2, 17))]
