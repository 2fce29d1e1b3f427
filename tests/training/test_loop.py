"""The loop of a training: figures, data of all kinds, checkpoints that resume bit for bit, events."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay
from tilewright.errors import EnvironmentError_, InputError
from tilewright.training import SGD, AdamW, Arrays, Averaged, Checkpoints, EarlyStop, Trainer, fit, training_step

Array = np.ndarray[Any, Any]
BATCH = 16


def regression(outputs: bool = False) -> Trainer:
    """A linear model with AdamW and averages, compiled."""
    x, y, w = relay.var("x", shape=(BATCH, 3)), relay.var("y", shape=(BATCH, 2)), relay.var("w", shape=(2, 3))
    made = relay.nn.dense(x, w)
    error = made - y
    step = training_step(relay.mean(error * error), [w], Averaged(AdamW(0.05)), [made] if outputs else [])
    return Trainer(step, tw.compile(step.module), {"w": np.zeros((2, 3), "float32")})


def samples(count: int = 100) -> dict[str, Array]:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((count, 3)).astype("float32")
    return {"x": x, "y": (x @ np.array([[1, 2], [3, -1], [0, 1]])).astype("float32")}


def test_figures_are_means_over_the_epoch_and_reach_the_report() -> None:
    trainer, lines = regression(outputs=True), []
    seen: list[float] = []

    def largest(outputs: Any, batch: Any) -> float:
        seen.append(float(np.abs(outputs[0] - batch["y"]).max()))
        return seen[-1]

    history = fit(
        trainer, Arrays(samples(), BATCH), epochs=3, metrics={"largest": largest},
        evaluate=lambda parameters: {"weights": float(np.abs(parameters["w"]).sum())}, report=lines.append,
    )  # fmt: skip
    assert len(history) == 3 and history[2]["loss"] < history[1]["loss"] < history[0]["loss"]
    assert history[1]["largest"] == pytest.approx(np.mean(seen[6:12]))
    assert history[2]["weights"] == pytest.approx(np.abs(trainer.parameters["w"]).sum())
    assert lines[2] == f"epoch 3  loss {history[2]['loss']:.6g}  largest {history[2]['largest']:.6g}  " \
        f"weights {history[2]['weights']:.6g}"  # fmt: skip


def test_an_epoch_has_each_sample_at_most_once_in_an_order_of_its_own() -> None:
    data = Arrays({"x": np.arange(50)}, 8, seed=3)
    first, again, second = (np.concatenate([one["x"] for one in data.epoch(n)]) for n in (0, 0, 1))
    assert len(data) == 6 and len(set(first.tolist())) == 48 and np.array_equal(first, again)
    assert not np.array_equal(first, second)
    assert np.array_equal(np.concatenate([one["x"] for one in data.epoch(0, 4)]), first[32:])
    kept = [one["x"][0] for one in Arrays({"x": np.arange(50)}, 8, seed=None).epoch(1)]
    assert kept == [0, 8, 16, 24, 32, 40]


def test_loaders_and_generators_train_like_arrays() -> None:
    expected = regression()
    fit(expected, Arrays(samples(), BATCH, seed=None), epochs=2, report=None)
    torch = pytest.importorskip("torch")
    found = regression()
    pairs = torch.utils.data.TensorDataset(*map(torch.from_numpy, samples().values()))
    fit(found, torch.utils.data.DataLoader(pairs, BATCH, drop_last=True), epochs=2, report=None)
    assert np.array_equal(found.parameters["w"], expected.parameters["w"])


def test_arrow_tables_train_like_arrays() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    arrays = samples() | {"pictures": np.arange(100 * 2 * 3, dtype="uint8").reshape(100, 2, 3)}
    columns = {
        "x": pyarrow.FixedSizeListArray.from_arrays(arrays["x"].reshape(-1), 3),
        "y": pyarrow.array(arrays["y"].tolist(), pyarrow.list_(pyarrow.float32())),
        "pictures": pyarrow.array(arrays["pictures"].tolist()),
        "label": pyarrow.array(np.arange(100)),
    }
    (batch,) = Arrays.of_arrow(pyarrow.table(columns), 100, seed=None).epoch(0)
    for name, value in arrays.items():
        assert np.array_equal(batch[name], value), name
    assert batch["x"].dtype == np.float32 and np.array_equal(batch["label"], np.arange(100))
    with pytest.raises(InputError, match="the lists of the column x differ in length"):
        Arrays.of_arrow(pyarrow.table({"x": [[1, 2], [3]]}), 1)
    with pytest.raises(InputError, match="the column x has 1 values that are null"):
        Arrays.of_arrow(pyarrow.table({"x": [1, None]}), 1)


PROGRAM = """
    import sys
    from tests.training.test_loop import *
    trainer = regression()
    slow = (lambda parameters: (time.sleep(0.02), {})[1]) if len(sys.argv) > 2 else None
    history = fit(
        trainer, Arrays(samples(), BATCH), epochs=40, evaluate=slow, report=lambda line: print(line, flush=True),
        checkpoints=Checkpoints(Path(sys.argv[1]), every=4),
    )
    print(trainer.parameters["w"].tobytes().hex(), trainer.averages["w"].tobytes().hex(), history[-1]["loss"].hex())
"""


def test_a_killed_training_goes_on_bit_for_bit(tmp_path: Path) -> None:
    pytest.importorskip("safetensors", reason="needs safetensors (PyPI)")
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    root = Path(__file__).resolve().parents[2]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), *sys.path])}

    def command(folder: str, *more: str) -> list[str]:
        return [sys.executable, str(program), str(tmp_path / folder), *more]

    whole = subprocess.run(command("whole"), env=environment, capture_output=True, text=True, check=True).stdout
    rng = np.random.default_rng(0)
    for _ in range(3):  # killed at three times, after at least one epoch each
        running = subprocess.Popen(command("killed", "slow"), env=environment, stdout=subprocess.PIPE, text=True)
        assert running.stdout is not None and running.stdout.readline().startswith("epoch ")
        time.sleep(rng.uniform(0.0, 0.15))
        running.send_signal(signal.SIGKILL)
        running.wait()
        running.stdout.close()
    rest = subprocess.run(command("killed"), env=environment, capture_output=True, text=True, check=True).stdout
    assert rest.splitlines()[-1] == whole.splitlines()[-1]
    assert len(list((tmp_path / "killed").iterdir())) == 2  # as many as stay, and nothing half-written


def test_checkpoints_of_another_network_and_damaged_ones_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("safetensors", reason="needs safetensors (PyPI)")
    kept = Checkpoints(tmp_path, every=3)
    fit(regression(), Arrays(samples(), BATCH), epochs=1, checkpoints=kept, report=None)
    x, w = relay.var("x", shape=(BATCH, 3)), relay.var("w", shape=(4, 3))
    step = training_step(relay.sum(relay.nn.dense(x, w)), [w], SGD(0.1))
    other = Trainer(step, None, {"w": np.zeros((4, 3), "float32")})
    with pytest.raises(
        InputError, match=r"these are of another network or optimizer: average0, .* in one of both alone"
    ):
        fit(other, Arrays(samples(), BATCH), epochs=1, checkpoints=kept)
    with pytest.raises(InputError, match=r"w is float32\[2, 3\] there, and float32\[4, 3\] here"):
        other.restore({"w": np.zeros((2, 3), "float32")}, {})
    path = max(tmp_path.iterdir())
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match=f"{path.name} is no checkpoint of a training .*; remove it"):
        fit(regression(), Arrays(samples(), BATCH), epochs=1, checkpoints=kept)
    with pytest.raises(InputError, match="both must be 1 or more"):
        Checkpoints(tmp_path, every=0)


def test_an_early_stop(tmp_path: Path) -> None:
    values = iter([3.0, 2.0, 2.5, 1.95, 2.0, 1.0])
    history = fit(
        regression(), Arrays(samples(), BATCH), epochs=6, evaluate=lambda _: {"error": next(values)},
        stop=EarlyStop("error", patience=3, least=0.1), report=None,
    )  # fmt: skip
    assert [one["error"] for one in history] == [3.0, 2.0, 2.5, 1.95, 2.0]
    rising = EarlyStop("accuracy", patience=1, maximize=True)
    assert not rising.is_due([{"accuracy": 0.5}, {"accuracy": 0.6}])
    assert rising.is_due([{"accuracy": 0.5}, {"accuracy": 0.4}])
    with pytest.raises(InputError, match="there is no figure 'f1' to stop by; there are loss"):
        fit(regression(), Arrays(samples(), BATCH), epochs=2, stop=EarlyStop("f1"), report=None)


def test_saved_parameters_are_read_by_torch(tmp_path: Path) -> None:
    pytest.importorskip("safetensors", reason="needs safetensors (PyPI)")
    trainer = regression()
    fit(trainer, Arrays(samples(), BATCH), epochs=1, report=None)
    trainer.save_parameters(tmp_path / "w.safetensors")
    trainer.save_parameters(tmp_path / "average.safetensors", averages=True)
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file

    layer = torch.nn.Linear(3, 2, bias=False)
    layer.load_state_dict({"weight": load_file(tmp_path / "w.safetensors")["w"]})
    assert np.array_equal(layer.weight.detach().numpy(), trainer.parameters["w"])
    assert np.array_equal(load_file(tmp_path / "average.safetensors")["w"].numpy(), trainer.averages["w"])


def test_events_for_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="needs tensorboardX (PyPI)")
    history = fit(regression(), Arrays(samples(), BATCH), epochs=2, events=tmp_path, report=None)
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = accumulator.EventAccumulator(str(tmp_path))
    found.Reload()
    assert [one.step for one in found.Scalars("step/loss")] == list(range(1, 13))
    assert [one.value for one in found.Scalars("epoch/loss")] == pytest.approx([one["loss"] for one in history])


def test_refusals(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"these have \{'x': 3, 'y': 2\}"):
        Arrays({"x": np.zeros(3), "y": np.zeros(2)}, 1)
    with pytest.raises(InputError, match="3 samples make no batch of 4"):
        Arrays({"x": np.zeros(3)}, 4)
    with pytest.raises(InputError, match="the data have no batch"):
        fit(regression(), [], epochs=1)
    with pytest.raises(InputError, match="a batch is a mapping or has the 2 values x, y; got list of 3"):
        fit(regression(), [[1, 2, 3]], epochs=1)
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(EnvironmentError_, match=r"needs the package tensorboardX.*pip install 'tilewright\[train\]'"):
        fit(regression(), Arrays(samples(), BATCH), epochs=1, events=tmp_path)
