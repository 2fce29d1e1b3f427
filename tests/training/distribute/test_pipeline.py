"""A pipeline of two ranks beside one rank with the whole batch; its errors and checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.training.distribute import train_ranks
from tests.training.distribute.in_threads import ThreadRanks, in_threads
from tests.training.distribute.test_ranks import Found, alone, by_gloo, by_mpi, run, torchrun
from tilewright import relay
from tilewright.errors import InputError
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.target import Target
from tilewright.training import SGD, Adam, ClippedByNorm, fit
from tilewright.training.distribute.buckets import Link
from tilewright.training.distribute.halves import best_cut, cuts
from tilewright.training.distribute.pipeline import PipelineTrainer

MICROBATCHES = 4


def begun(ranks: Any, count: int = MICROBATCHES, **options: Any) -> PipelineTrainer:
    loss, parameters = train_ranks.network(train_ranks.BATCH // count)
    optimizer = options.pop("optimizer", train_ranks.MOMENTUM)
    given = {"microbatches": count, "ranks": ranks, "threads": 1, **options}
    return PipelineTrainer(loss, parameters, optimizer, train_ranks.values(), **given)


@pytest.mark.parametrize("count", [1, 2, 6])
def test_two_halves_train_as_one_rank_with_the_whole_batch(count: int) -> None:
    def trained(ranks: ThreadRanks) -> tuple[list[float], dict[str, np.ndarray], dict[str, np.ndarray]]:
        trainer = begun(ranks, count)
        losses = [float(trainer(**batch)[0]) for batch in train_ranks.batches()]
        return losses, trainer.all_parameters(), trainer.parameters

    (losses, every, front), (others, again, back) = in_threads(2, trained)
    wanted, parameters, _ = alone("plain")
    np.testing.assert_allclose(losses, wanted, rtol=0, atol=1e-6)
    assert losses == others and list(every) == list(train_ranks.SHAPES)
    np.testing.assert_allclose(np.concatenate([v.reshape(-1) for v in every.values()]), parameters, rtol=0, atol=1e-6)
    assert front and back and sorted([*front, *back]) == sorted(train_ranks.SHAPES)
    for name, value in every.items():
        np.testing.assert_array_equal(value, again[name])


@pytest.mark.parametrize("engine", [by_gloo, by_mpi])
def test_processes_have_the_bits_of_another_run(engine: Callable[..., Found], tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    found = [engine(tmp_path, "pipeline", str(tmp_path / name), "9", "9") for name in ("first", "second")]
    _, parameters, _ = alone("plain", epochs=2)
    flat = np.concatenate([found[0][name].reshape(-1) for name in train_ranks.SHAPES])
    np.testing.assert_allclose(flat, parameters, rtol=0, atol=1e-6)
    for name, value in found[0].items():
        assert value.tobytes() == found[1][name].tobytes(), name


def test_a_killed_half_costs_a_step_at_most_and_no_bits(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    program = [str(train_ranks.__file__), "gloo"]
    killed = [*torchrun("--max-restarts", "1"), *program]
    found = run(killed, tmp_path / "killed.npz", "pipeline", str(tmp_path / "run"), "1", "3")
    assert 2 * train_ranks.STEPS - 3 <= found.pop("steps") <= 2 * train_ranks.STEPS - 2
    expected = run([*torchrun(), *program], tmp_path / "whole.npz", "pipeline", str(tmp_path / "w"), "9", "9")
    for name, value in found.items():
        np.testing.assert_array_equal(value, expected[name])


def test_outputs_are_of_the_whole_batch_and_checkpoints_go_on(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    x = relay.var("x", shape=(4, 10))
    w1, w2 = relay.var("w1", shape=(16, 10)), relay.var("w2", shape=(1, 16))
    y = relay.nn.dense(relay.tanh(relay.nn.dense(x, w1)), w2)
    rng = np.random.default_rng(5)
    first = {"w1": rng.standard_normal((16, 10), np.float32), "w2": rng.standard_normal((1, 16), np.float32)}
    data = [{"x": rng.standard_normal((8, 10), np.float32)} for _ in range(3)]

    def trained(ranks: ThreadRanks, folder: Path, epochs: int) -> Any:
        options: dict[str, Any] = {"outputs": [y], "microbatches": 2, "ranks": ranks, "threads": 1}
        trainer = PipelineTrainer(relay.mean(y * y), [w1, w2], Adam(0.01), first, **options)
        _, outputs = trainer(**data[0])
        hidden = np.tanh(data[0]["x"] @ first["w1"].T)
        np.testing.assert_allclose(outputs, hidden @ first["w2"].T, rtol=1e-4, atol=1e-5)
        trainer.restore({name: first[name] for name in trainer.parameters}, trainer.state)
        fit(trainer, data, epochs=epochs, checkpoints=trainer.checkpoints(folder), report=None)  # type: ignore[arg-type]
        trainer.save_parameters(folder / "whole.safetensors")
        return trainer.all_parameters()

    in_threads(2, lambda ranks: trained(ranks, tmp_path / "parts", 1))
    parts = in_threads(2, lambda ranks: trained(ranks, tmp_path / "parts", 2))
    whole = in_threads(2, lambda ranks: trained(ranks, tmp_path / "whole", 2))
    for name in first:
        np.testing.assert_array_equal(parts[0][name], whole[1][name])
    assert (tmp_path / "whole" / "whole.safetensors").exists()


def test_the_cut_balances_time_and_sends_little() -> None:
    x = relay.var("x", shape=(64, 256))
    weights = [relay.var(f"w{number}", shape=(256, 256)) for number in range(6)]
    narrow = relay.var("narrow", shape=(8, 256))
    wide = relay.var("wide", shape=(256, 8))
    value = x
    values = []
    for number, w in enumerate(weights):
        if number == 4:
            value = relay.nn.dense(relay.nn.dense(value, narrow), wide)
        value = relay.nn.dense(value, w)
        values.append(value)
    loss, parameters = relay.mean(value * value), [*weights, narrow, wide]
    found = cuts([loss], parameters)
    fast = found[best_cut([loss], found, Target("cpu"), 1, Link(0.0, 1e15), 8)]
    assert fast.sent == (values[2],)
    slow = found[best_cut([loss], found, Target("cpu"), 1, Link(0.0, 1e6), 8)]
    assert [tensor_type_of(one).shape for one in slow.sent] == [(64, 8)]


def test_errors_say_what_to_do() -> None:
    def refused(message: str, **options: Any) -> None:
        def begin(ranks: ThreadRanks) -> None:
            with pytest.raises(InputError, match=message):
                begun(ranks, **options)

        in_threads(2, begin)

    with pytest.raises(InputError, match="microbatches=0: a batch has one at least"):
        begun(None, microbatches=0)
    refused("updates each parameter by its own gradient; ClippedByNorm", optimizer=ClippedByNorm(SGD(0.1), 1.0))
    with pytest.raises(InputError, match="on two ranks; 1 is started"):
        begun(None)
    with pytest.raises(InputError, match="on two ranks; 3 are started"):
        begun(ThreadRanks(0, 3, {}))
    x, w = relay.var("x", shape=(4, 8)), relay.var("w", shape=(8, 8))
    tied = relay.nn.dense(relay.tanh(relay.nn.dense(x, w)), w)
    for loss, message in (
        (relay.sum(tied), r"the loss is a sum \(sum\); with microbatches it must be a mean"),
        (relay.mean(tied), "a half has no parameter, or a parameter is used in both"),
    ):
        with pytest.raises(InputError, match=message):
            PipelineTrainer(
                loss, [w], SGD(0.1), {"w": np.zeros((8, 8), "float32")}, microbatches=2, ranks=ThreadRanks(0, 2, {})
            )

    def misfit(ranks: ThreadRanks) -> None:
        trainer = begun(ranks)
        batch = {name: value[:-1] for name, value in train_ranks.batches()[0].items()}
        with pytest.raises(InputError, match=r"x is \[23, 10\]; a batch of 4 microbatches of \[6, 10\] has 4 times"):
            trainer(**batch)
        with pytest.raises(InputError, match="the step takes the inputs"):
            trainer(x=batch["x"])

    in_threads(2, misfit)
