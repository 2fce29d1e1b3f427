"""Steps by JAX have the losses and gradients of eager PyTorch."""

from __future__ import annotations

import copy
import importlib
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the steps are those of modules of PyTorch")
pytest.importorskip("jax", reason="JAX computes the steps")


def _small(steps: Any) -> dict[str, Any]:
    """Networks of the parts that those of the bench have, with their batches' shapes, classes and tokens."""
    nn, relu6 = torch.nn, torch.nn.ReLU6
    inner = [steps.convolution(8, 48, 1, act=relu6), steps.convolution(48, 48, 3, 1, 48, relu6), nn.Conv2d(48, 8, 1)]
    blocks = [
        steps.convolution(3, 8, 3, 2), nn.MaxPool2d(3, 2, 1), steps.Residual(nn.Sequential(*inner)),
        steps.Residual(steps.convolution(8, 12, 3, 2, act=None), steps.convolution(8, 12, 1, 2, act=None), act=True),
    ]  # fmt: skip
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 10)]
    return {
        "convolutions": (nn.Sequential(*blocks, *head), steps.Case(None, (4, 3, 40, 40), 10)),
        "language": (steps.Language(50, 1, 32, 4, 12), steps.Case(None, (3, 12), 50, 50)),
        "images": (steps.VisionTransformer(1, 24), steps.Case(None, (2, 3, 224, 224), 1000)),
        "recurrent": (steps.Recurrent(6, 16), steps.Case(None, (4, 5, 6), 10)),
    }


@pytest.mark.parametrize("name", ["convolutions", "language", "images", "recurrent"])
def test_two_steps(name: str) -> None:
    steps = importlib.import_module("training_steps")
    torch.manual_seed(0)
    module, case = _small(steps)[name]
    batch = case.batch(0)
    eager = steps.TorchStep(module, "eager", 1)
    found = importlib.import_module("training_jax").JaxStep(copy.deepcopy(module), batch, 1, steps.RATE)
    for _ in range(2):
        assert found(*batch) == pytest.approx(float(eager(*batch)), rel=1e-5)
        gradients = found.gradients()
        for key, parameter in eager.module.named_parameters():
            largest = float(parameter.grad.abs().max())
            assert float((gradients[key] - parameter.grad).abs().max()) <= 2e-4 * largest + 1e-7, key
        found.update()
        eager.update()
    assert min(found.seconds) > 0
