"""The fuzzer of training graphs: a few seeds agree with PyTorch, and a wrong gradient is seen."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the fuzzer compares with PyTorch")

from bench.fuzz import training_worker as worker  # noqa: E402
from bench.fuzz.training_draw import draw_network  # noqa: E402
from bench.fuzz.training_graphs import survey  # noqa: E402
from bench.fuzz.worker import RIGHT, WRONG  # noqa: E402


def test_seeds_by_both_interfaces_are_right() -> None:
    found = survey(range(4), None)
    assert [one.outcome for one in found] == [RIGHT] * 4, found


def test_a_seed_draws_the_same_network_each_time() -> None:
    (first, x, target), (second, x_again, _) = draw_network(11), draw_network(11)
    assert first.text() == second.text() and torch.equal(x, x_again)
    assert torch.equal(first(x, target), second(x, target))


@pytest.mark.parametrize("seed", [51, 1151], ids=["constants alone", "parameters that the loss does not read"])
def test_there_is_something_to_differentiate_by(seed: int) -> None:
    network, x, target = draw_network(seed)
    assert x.is_floating_point() or network(x, target).requires_grad


def test_a_wrong_gradient_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = worker.by_pytorch

    def wrong(*args: object) -> dict[str, object]:
        made = right(*args)  # type: ignore[arg-type]
        name = next(name for name in made if name.startswith("gradient of"))
        return {**made, name: made[name] * 1.001}

    monkeypatch.setattr(worker, "by_compile", wrong)
    assert worker.judge(0).outcome == WRONG


def test_a_gradient_that_cancels_is_as_exact_as_the_largest() -> None:
    wide = {"gradient of weight": torch.full((3,), 0.05, dtype=torch.float64), "gradient of bias": torch.zeros(3)}
    for off, count in ((2e-10, 0), (2e-8, 1)):
        ours = wide | {"gradient of bias": torch.full((3,), off)}
        assert len(worker.differences(ours, wide, wide)) == count
