"""Training as users write it: optimizers within compiled functions, several networks, odd losses, rewards."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch_uses_way import Way, program

_OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
    "sgd_alone": lambda p: torch.optim.SGD(p, lr=0.1, foreach=False),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.01),
    "adam_by_one": lambda p: torch.optim.Adam(p, lr=0.01, foreach=False),
    "adam_amsgrad": lambda p: torch.optim.Adam(p, lr=torch.tensor(0.01), amsgrad=True, capturable=False),
    "adam_fused": lambda p: torch.optim.Adam(p, lr=0.01, fused=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True, momentum=0.5),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
    "adadelta": lambda p: torch.optim.Adadelta(p, lr=1.0),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.01),
    "radam": lambda p: torch.optim.RAdam(p, lr=0.01),
    "adamax": lambda p: torch.optim.Adamax(p, lr=0.01),
    "asgd": lambda p: torch.optim.ASGD(p, lr=0.1),
    "rprop": lambda p: torch.optim.Rprop(p, lr=0.01),
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=0.01),
}


def _steps(way: Way, make: Any, whole: bool) -> Any:
    net = way.wide(nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2)))
    optimizer = make(net.parameters())
    x, y = way.draw(6, 5), way.draw(6, 2)

    def forward() -> Any:
        optimizer.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        return loss

    def step() -> None:
        optimizer.step()

    step = way.compiled(step)
    if not whole:
        forward = way.compiled(forward)
    losses = []
    for _ in range(4):
        losses.append(forward().detach())
        step()
    return losses, [one.detach() for one in net.parameters()]


def _enter_optimizers() -> None:
    for name, make in _OPTIMIZERS.items():

        def run(way: Way, make: Any = make) -> Any:
            return _steps(way, make, True)

        run.__name__ = f"optimizer_{name}"
        program(run)


_enter_optimizers()


@program
def whole_training_step(way: Way) -> Any:
    """Forward, backward, clipped gradients and the optimizer in one compiled function, with a rate that changes."""
    net = way.wide(
        nn.Sequential(nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
    )
    optimizer = torch.optim.AdamW(net.parameters(), lr=torch.tensor(0.01))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)

    @way.compiled
    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach(), norm

    results = []
    for _ in range(4):
        results.append(step(way.draw(4, 1, 8, 8), torch.randint(0, 3, (4,))))
        schedule.step()
    return results, [one.detach() for one in net.state_dict().values()]


@program
def generator_and_discriminator(way: Way) -> Any:
    g = way.wide(nn.Sequential(
        nn.ConvTranspose2d(6, 8, 4, 1, 0, bias=False), nn.BatchNorm2d(8), nn.ReLU(True),
        nn.ConvTranspose2d(8, 1, 4, 2, 1, bias=False), nn.Tanh(),
    ))  # fmt: skip
    d = way.wide(nn.Sequential(
        nn.Conv2d(1, 8, 4, 2, 1, bias=False), nn.BatchNorm2d(8), nn.LeakyReLU(0.2, inplace=True), nn.Conv2d(8, 1, 4),
        nn.Flatten(0),
    ))  # fmt: skip
    fast_g, fast_d = way.compiled(g), way.compiled(d)
    of_g, of_d = (torch.optim.Adam(one.parameters(), lr=2e-3, betas=(0.5, 0.999)) for one in (g, d))
    losses = []
    for _ in range(2):
        real, noise = way.draw(4, 1, 8, 8), way.draw(4, 6, 1, 1)
        of_d.zero_grad()
        fake = fast_g(noise)
        ones = torch.ones(4, dtype=real.dtype)
        loss = F.binary_cross_entropy_with_logits(fast_d(real), ones)
        loss = loss + F.binary_cross_entropy_with_logits(fast_d(fake.detach()), 0 * ones)
        loss.backward()
        of_d.step()
        of_g.zero_grad()
        other = F.binary_cross_entropy(torch.sigmoid(fast_d(fake)), ones)
        other.backward()
        of_g.step()
        losses += [loss.detach(), other.detach()]
    return losses, list(g.state_dict().values()), list(d.state_dict().values())


@program
def gradient_penalty(way: Way) -> Any:
    """Gradients within the loss, of the compiled network's own input, taken without being compiled twice."""
    critic = way.wide(nn.Sequential(nn.Linear(4, 8), nn.Softplus(), nn.Linear(8, 1)))

    @way.compiled
    def penalty(x: Any) -> Any:
        return (torch.func.grad(lambda z: critic(z).sum())(x).norm(dim=1) - 1).square().mean()

    value = penalty(way.draw(5, 4))
    value.backward()
    return value, [one.grad for one in critic.parameters() if one.grad is not None]


@program
def adversarial_images(way: Way) -> Any:
    """Gradients with respect to the image, several steps within a ball around it."""
    net = way.wide(
        nn.Sequential(nn.Conv2d(1, 4, 3), nn.GELU(), nn.AdaptiveMaxPool2d(2), nn.Flatten(), nn.Linear(16, 3))
    )
    run = way.compiled(net.eval())
    image, label = way.wide(torch.rand(2, 1, 9, 9)), torch.tensor([0, 2])
    changed = image.clone()
    for _ in range(3):
        changed.requires_grad_(True)
        (gradient,) = torch.autograd.grad(F.nll_loss(run(changed).log_softmax(-1), label), changed)
        step = changed.detach() + 0.02 * gradient / gradient.abs().amax((1, 2, 3), keepdim=True)
        changed = torch.clamp(image + torch.clamp(step - image, -0.05, 0.05), 0, 1)
    return changed


@program
def style_of_images(way: Way) -> Any:
    """Gram matrices of features, total variation, and L-BFGS over the image, whose closure is compiled."""
    features = way.wide(nn.ModuleList([nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 6, 3, padding=1)]))
    style, content = way.draw(1, 1, 8, 8), way.draw(1, 1, 8, 8)

    def seen(x: Any) -> list[Any]:
        one = F.relu(features[0]((x - 0.45) / 0.22))
        return [one, F.avg_pool2d(F.relu(features[1](one)), 2)]

    def gram(x: Any) -> Any:
        flat = x.flatten(2)[0]
        return flat @ flat.t() / flat.numel()

    @way.compiled
    def loss(x: Any) -> Any:
        found = sum(F.mse_loss(gram(a), gram(b)) for a, b in zip(seen(x), seen(style)))
        rough = (x[..., 1:] - x[..., :-1]).abs().mean() + (x[..., 1:, :] - x[..., :-1, :]).abs().mean()
        return 100 * found + F.mse_loss(seen(x)[1], seen(content)[1]) + 0.01 * rough

    image = content.clone().requires_grad_()
    optimizer = torch.optim.LBFGS([image], lr=0.5, max_iter=4)

    def closure() -> Any:
        optimizer.zero_grad()
        value = loss(image)
        value.backward()
        return value

    return optimizer.step(closure), image


@program
def deep_q_learning(way: Way) -> Any:
    policy = way.wide(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))
    target = copy.deepcopy(policy)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-2, amsgrad=True)

    @way.compiled
    def loss(state: Any, action: Any, reward: Any, after: Any, final: Any) -> Any:
        values = policy(state).gather(1, action)
        with torch.no_grad():
            best = torch.zeros_like(reward)
            best[~final] = target(after).max(1).values
        return F.smooth_l1_loss(values, (best * 0.99 + reward).unsqueeze(1))

    @way.compiled
    def follow() -> None:
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), policy.parameters()):
                slow.lerp_(fast, 0.1)

    for _ in range(3):
        final = torch.tensor([False, True, False, False, True])
        optimizer.zero_grad()
        loss(way.draw(5, 4), torch.randint(0, 2, (5, 1)), way.draw(5), way.draw(3, 4), final).backward()
        nn.utils.clip_grad_value_(policy.parameters(), 100)
        optimizer.step()
        follow()
    return list(policy.parameters()), list(target.parameters())


@program
def actor_and_critic(way: Way) -> Any:
    """The clipped loss of proximal policies, with distributions, advantages summed backwards, entropy."""
    body, actor, critic = (way.wide(nn.Linear(*shape)) for shape in ((4, 8), (8, 3), (8, 1)))
    spread = nn.Parameter(way.draw(2) * 0.1)

    @way.compiled
    def loss(states: Any, actions: Any, moves: Any, before: Any, rewards: Any) -> Any:
        h = torch.tanh(body(states))
        kinds = torch.distributions.Categorical(logits=actor(h))
        positions = torch.distributions.Normal(h[:, :2], spread.exp())
        values = critic(h).squeeze(-1)
        advantage, total = [], torch.zeros((), dtype=values.dtype)
        for step in reversed(range(rewards.shape[0])):
            after = values[step + 1].detach() if step + 1 < rewards.shape[0] else torch.zeros((), dtype=values.dtype)
            total = rewards[step] + 0.99 * after - values[step].detach() + 0.99 * 0.95 * total
            advantage.insert(0, total)
        gain = torch.stack(advantage)
        gain = (gain - gain.mean()) / (gain.std() + 1e-8)
        ratio = torch.exp(kinds.log_prob(actions) + positions.log_prob(moves).sum(-1) - before)
        clipped = torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
        return -clipped + 0.5 * F.huber_loss(values, gain) - 0.01 * kinds.entropy().mean()

    value = loss(way.draw(6, 4), torch.randint(0, 3, (6,)), way.draw(6, 2), way.draw(6) - 2, way.draw(6))
    value.backward()
    return value, [one.grad for part in (body, actor, critic) for one in part.parameters()], spread.grad


@program
def mixtures_of_densities(way: Way) -> Any:
    net = way.wide(nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 9)))

    @way.compiled
    def loss(x: Any, y: Any) -> Any:
        weight, mean, spread = net(x).chunk(3, -1)
        each = torch.distributions.Normal(mean, F.softplus(spread) + 1e-3)
        mixture = torch.distributions.MixtureSameFamily(torch.distributions.Categorical(logits=weight), each)
        return -mixture.log_prob(y).mean() + torch.distributions.kl_divergence(each, each.__class__(0.0, 1.0)).mean()

    value = loss(way.draw(7, 1), way.draw(7))
    value.backward()
    return value, [one.grad for one in net.parameters()]


@program
def flows(way: Way) -> Any:
    """Affine couplings, an invertible mixing whose determinant counts, and the way back."""
    nets = way.wide(nn.ModuleList(nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 4)) for _ in range(2)))
    mix = nn.Parameter(way.draw(4, 4))

    def forward(x: Any) -> Any:
        total = torch.linalg.slogdet(mix)[1].expand(x.shape[0])
        x = x @ mix
        for net in nets:
            kept, moved = x.chunk(2, -1)
            scale, shift = net(kept).chunk(2, -1)
            x = torch.cat([moved * torch.tanh(scale).exp() + shift, kept], -1)
            total = total + torch.tanh(scale).sum(-1)
        return x, total

    def back(x: Any) -> Any:
        for net in reversed(nets):
            moved, kept = x.chunk(2, -1)
            scale, shift = net(kept).chunk(2, -1)
            x = torch.cat([kept, (moved - shift) * torch.exp(-torch.tanh(scale))], -1)
        return torch.linalg.solve(mix.T, x.T).T

    x = way.draw(5, 4)
    z, total = way.compiled(forward)(x)
    loss = (0.5 * z.square().sum(-1) - total).mean()
    loss.backward()
    return z, way.compiled(back)(z.detach()), mix.grad, [one.grad for one in nets.parameters()]


@program
def codes_in_a_book(way: Way) -> Any:
    """Vector quantization: the nearest code, gradients past it, codes that follow by moving averages in buffers."""

    class Book(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("codes", torch.randn(6, 4))
            self.register_buffer("counts", torch.ones(6))
            self.register_buffer("sums", self.codes.clone())

        def forward(self, x: Any) -> Any:
            flat = x.reshape(-1, 4)
            positions = torch.cdist(flat, self.codes).argmin(1)
            made = F.embedding(positions, self.codes).view_as(x)
            if self.training:
                hot = F.one_hot(positions, 6).to(x.dtype)
                with torch.no_grad():
                    self.counts.mul_(0.9).add_(hot.sum(0), alpha=0.1)
                    self.sums.mul_(0.9).add_(hot.t() @ flat, alpha=0.1)
                    self.codes.copy_(self.sums / self.counts.clamp(min=1e-5)[:, None])
            return x + (made - x).detach(), positions, F.mse_loss(x, made.detach())

    book, enter = way.wide(Book()), way.wide(nn.Linear(3, 4))
    run = way.compiled(lambda x: book(enter(x)))
    for _ in range(3):
        made, positions, commitment = run(way.draw(2, 5, 3))
        (made.square().mean() + commitment).backward()
    return made, positions, list(book.buffers()), [one.grad for one in enter.parameters()]


@program
def connectionist_classes(way: Way) -> Any:
    """Losses of sequences and of pairs: CTC, triplets, cosines, contrasts of all with all."""
    net, words = way.wide(nn.LSTM(4, 6, bidirectional=True)), way.wide(nn.Linear(12, 5))

    @way.compiled
    def loss(x: Any, targets: Any) -> Any:
        h = net(x)[0]
        lengths = torch.full((x.shape[1],), x.shape[0]), torch.tensor([3, 2])
        made = F.ctc_loss(words(h).log_softmax(-1), targets, *lengths)
        one, other = F.normalize(h[0], dim=-1), F.normalize(h[-1], dim=-1)
        contrast = F.cross_entropy(one @ other.T / 0.1, torch.arange(2))
        return (
            made
            + contrast
            + F.triplet_margin_loss(one, other, other.flip(0))
            + F.kl_div(h[1].log_softmax(-1), h[2].log_softmax(-1), log_target=True, reduction="batchmean")
        )

    value = loss(way.draw(9, 2, 4), torch.tensor([[1, 2, 2], [3, 4, 0]]))
    value.backward()
    return value, [one.grad for part in (net, words) for one in part.parameters()]


@program
def accumulated_in_bfloat16(way: Way) -> Any:
    """Autocast to bfloat16, checkpoints that are computed again, gradients of two batches summed."""
    from torch.utils.checkpoint import checkpoint

    first, second = way.wide(nn.Linear(6, 8)), way.wide(nn.Linear(8, 2))

    @way.compiled
    def loss(x: Any) -> Any:
        return second(checkpoint(lambda z: F.gelu(first(z)), x, use_reentrant=False)).square().mean()

    for _ in range(2):
        (loss(way.draw(3, 6)) / 2).backward()
    results = [one.grad for part in (first, second) for one in part.parameters()]
    x = torch.randn(3, 6)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        short = way.compiled(lambda z: second(first(z)))(x.to(first.weight.dtype))
    return results, (short.double() * 16).round().to(torch.int64)


@program
def weights_by_other_names(way: Way) -> Any:
    """Weight and spectral norms, an orthogonal matrix, masks of pruning, low ranks beside a frozen layer."""
    from torch.nn.utils import parametrizations, prune

    class Low(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base = nn.Linear(8, 8).requires_grad_(False)
            self.a, self.b = nn.Parameter(torch.randn(2, 8)), nn.Parameter(torch.randn(8, 2) * 0.1)

        def forward(self, x: Any) -> Any:
            return self.base(x) + (x @ self.a.T @ self.b.T) * 2

    layers = nn.Sequential(
        parametrizations.weight_norm(nn.Linear(6, 8)), nn.Mish(), Low(),
        parametrizations.orthogonal(nn.Linear(8, 8), orthogonal_map="cayley"), nn.Softsign(),
        prune.l1_unstructured(nn.Linear(8, 8), "weight", 0.4), parametrizations.spectral_norm(nn.Linear(8, 3)),
    )  # fmt: skip
    net = way.wide(layers)
    run = way.compiled(net)
    for _ in range(2):
        made = run(way.draw(4, 6))
        made.square().mean().backward()
    return made, [one.grad for one in net.parameters() if one.grad is not None]
