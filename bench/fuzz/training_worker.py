"""The process that training graphs run in: `python -m bench.fuzz.training_worker` reads a seed a line.

A step of the network is computed by PyTorch in float64, which is the reference, and in float32, which says how far
rounding goes; then here, by turns as `torch.compile(backend="tilewright")` and as a `training_step`. Compared are the
loss and the gradients of parameters and of the input, and of `torch.compile` the buffers as well.
"""

from __future__ import annotations

import copy
import json
import sys
import warnings
from dataclasses import asdict
from typing import Any

import torch
from torch import nn

import tilewright
from bench.fuzz.training_draw import Network, draw_network
from bench.fuzz.worker import RAW, REFUSED, RIGHT, WRONG, Outcome
from tilewright import relay
from tilewright.errors import UserError
from tilewright.frontend.torch import from_pytorch
from tilewright.training import SGD, Trainer, training_step

#: Distance from float64, beside the largest element, that counts as rounding: at least, and in those of PyTorch's.
_BOUND, _TIMES = 2e-4, 20.0

#: A gradient of zero, as of a bias before the mean is taken away, is a sum of terms that cancel, which are as exact as
#: float32 is: it may differ by this share of the step's largest gradient, two units in the last digit.
_EXACT = 2.0**-22

#: The name of the input's gradient, which a step of ours does not compute.
_OF_INPUT = "gradient of the input"

#: Other inputs on which a difference must show again: rounding may decide at a kink, which is no fault.
_AGAIN = 2


def by_pytorch(network: Network, x: Any, target: Any) -> dict[str, Any]:
    """The loss, the gradients and the buffers of one step in PyTorch."""
    return _step(copy.deepcopy(network), x, target, lambda module: module)


def by_compile(network: Network, x: Any, target: Any) -> dict[str, Any]:
    """The same by `torch.compile` with this package."""
    torch._dynamo.reset()
    made = {"backend": "tilewright", "dynamic": False, "options": {"threads": 1 + x.numel() % 2, "strict": True}}
    return _step(copy.deepcopy(network), x, target, lambda module: torch.compile(module, **made))


def _step(module: Network, x: Any, target: Any, made: Any) -> dict[str, Any]:
    x = x.clone().requires_grad_(x.is_floating_point())
    loss = made(module)(x, target)
    loss.backward()
    found = {f"gradient of {name}": p.grad for name, p in module.named_parameters() if p.grad is not None}
    found |= dict(module.named_buffers())
    return {"loss": loss.detach(), **found, **({_OF_INPUT: x.grad} if x.requires_grad else {})}


class _Held:
    """The module that `Loss` calls, which must not be a child of it: its parameters are inputs."""

    module: nn.Module


class _Loss(nn.Module):
    """The loss of the held network as a function of its parameters and buffers too."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names = names

    def forward(self, x: Any, y: Any, state: list[Any]) -> Any:
        return torch.func.functional_call(_Held.module, dict(zip(self.names, state)), (x, y))


def by_native(network: Network, x: Any, target: Any) -> dict[str, Any]:
    """The loss and the gradients by a step of `training_step`, whose momentum after one step is the gradient."""
    _Held.module = module = copy.deepcopy(network)
    learned = {name: p for name, p in module.named_parameters() if p.requires_grad}
    rest = {name: p for name, p in module.named_parameters() if not p.requires_grad} | dict(module.named_buffers())
    values = {name: value.detach() for name, value in (learned | rest).items()}
    program = torch.export.export(_Loss(list(values)), (x, target, list(values.values())))
    main = from_pytorch(program)[0]["main"]
    results = list(main.body.fields) if isinstance(main.body, relay.Tuple) else [main.body]
    first, second, *state = main.params
    step = training_step(results[0], state[: len(learned)], SGD(0.1, momentum=0.9), results[1:])
    model = tilewright.compile(step.module, threads=1 + x.numel() % 2, cache=False)
    begun = {var.name: value.numpy() for var, value in zip(state, values.values())}
    trainer = Trainer(step, model, begun)
    feeds = begun | {first.name: x.numpy(), second.name: target.numpy()}
    loss = trainer(**{var.name: feeds[var.name] for var in step.inputs})[0]
    gradients = [torch.as_tensor(value) for value in trainer.state.values()]
    named = {f"gradient of {name}": value for name, value in zip(learned, gradients[-len(learned) :])}
    return {"loss": torch.as_tensor(loss), **named}


def differences(ours: dict[str, Any], wide: dict[str, Any], narrow: dict[str, Any]) -> list[str]:
    """The values further from float64 than rounding explains."""
    found = []
    largest = {name: float(v.abs().max()) for name, v in wide.items() if v.is_floating_point() and v.numel()}
    most = max((size for name, size in largest.items() if name.startswith("gradient of")), default=0.0)
    for name in ours.keys() & wide.keys():
        if not wide[name].is_floating_point():
            continue
        least = most * _EXACT / _BOUND if name.startswith("gradient of") else 0.0
        scale = max(largest.get(name, 0.0), 1e-6, least)
        apart, usual = (float((some[name].double() - wide[name]).abs().max()) / scale for some in (ours, narrow))
        if not apart <= max(_BOUND, _TIMES * usual):
            found.append(f"{name} {list(wide[name].shape)} by {apart:.1e}, PyTorch by {usual:.1e}")
    gone = [name for name in wide.keys() - ours.keys() if name.startswith("gradient of") and name != _OF_INPUT]
    return found + [f"{name} is missing" for name in sorted(gone)]


def judge(seed: int) -> Outcome:
    """Compare a seed's step, on other inputs once more where it differs."""
    network, x, target = draw_network(seed)
    steps = tuple(name for name, _, _ in network.steps)
    engine = by_native if seed % 2 and any(p.requires_grad for p in network.parameters()) else by_compile
    messages: list[str] = []
    for turn in range(1 + _AGAIN):
        torch.manual_seed(seed + turn)
        given = x if not turn or not x.is_floating_point() else torch.randn(x.shape)
        _say("references")
        narrow = by_pytorch(network, given, target)
        doubles = [value.double() if value.is_floating_point() else value for value in (given, target)]
        wide = by_pytorch(copy.deepcopy(network).double(), *doubles)
        _say("ours")
        try:
            ours = engine(network, given, target)
        except UserError as error:
            return Outcome(seed, REFUSED, f"{type(error).__name__}: {error}", steps)
        except Exception as error:
            return Outcome(seed, RAW, f"{engine.__name__}: {type(error).__name__}: {error}"[:600], steps)
        _say("comparing")
        wrong = differences(ours, wide, narrow)
        if not wrong:
            return Outcome(seed, RIGHT, "", steps)
        messages.append("; ".join(wrong[:3]))
    return Outcome(seed, WRONG, f"{engine.__name__}: {messages[0]}", steps)


def _say(stage: str) -> None:
    print(stage, flush=True)


def main() -> None:
    """Answer requests until there are no more."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for line in sys.stdin:
        print(json.dumps(asdict(judge(int(line)))), flush=True)


if __name__ == "__main__":
    main()
