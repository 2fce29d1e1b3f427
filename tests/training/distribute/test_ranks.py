"""Training on 2 and 4 ranks by gloo and by MPI beside one rank with whole batches; errors of ranks."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.training.distribute import train_ranks
from tests.training.distribute.in_threads import ThreadRanks, in_threads
from tilewright import relay
from tilewright.errors import EnvironmentError_, InputError, TypeMismatchError, UnsupportedError
from tilewright.training import SGD, Adafactor, ClippedByNorm, Trainer, training_step
from tilewright.training.checkpoint import Checkpoint, Checkpoints
from tilewright.training.distribute.buckets import Link, choose_buckets
from tilewright.training.distribute.checkpoints import RankCheckpoints
from tilewright.training.distribute.cut import cut
from tilewright.training.distribute.reduce import Bucket, Reducer, TopK, piece_bytes
from tilewright.training.distribute.trainer import DistributedTrainer

PROGRAM = Path(train_ranks.__file__)
Found = dict[str, np.ndarray]


def run(command: list[str], out: Path, *cases: str) -> Found:
    """The findings of the ranks that `command` starts."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, str(out), *cases],
        env=environment,
        cwd=PROGRAM.parents[3],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    with np.load(out) as found:
        return dict(found)


def torchrun(*options: str, count: int = 2) -> list[str]:
    pytest.importorskip("torch")
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}", *options]


def by_gloo(folder: Path, *cases: str, count: int = 2) -> Found:
    return run([*torchrun(count=count), str(PROGRAM), "gloo"], folder / "gloo.npz", *cases)


def mpiexec(count: int = 2) -> list[str]:
    """The launcher of `count` ranks of the program."""
    pytest.importorskip("mpi4py")
    beside = Path(sys.executable).parent / "mpiexec"
    launcher = str(beside) if beside.exists() else shutil.which("mpiexec")
    if launcher is None:
        pytest.skip("there is no mpiexec")
    return [launcher, "-n", str(count), sys.executable, str(PROGRAM), "mpi"]


def by_mpi(folder: Path, *cases: str, count: int = 2) -> Found:
    return run(mpiexec(count), folder / "mpi.npz", *cases)


class _Interpreted:
    """Runs a step by the operators' references."""

    def __init__(self, module: relay.IRModule) -> None:
        self.module = module

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        return relay.interpret(self.module, arrays)


def alone(case: str, epochs: int = 1) -> tuple[list[float], np.ndarray, int]:
    """Losses, parameters and the size of the state of one rank with whole batches."""
    loss, parameters = train_ranks.network(train_ranks.BATCH)
    step = training_step(loss, parameters, train_ranks.CASES[case][0])
    trainer = Trainer(step, _Interpreted(step.module), train_ranks.values())
    losses = [float(trainer(**batch)[0]) for batch in train_ranks.batches() * epochs]
    flat = np.concatenate([value.reshape(-1) for value in trainer.parameters.values()])
    return losses, flat, sum(value.size for value in trainer.state.values())


@pytest.mark.parametrize("engine", [by_gloo, by_mpi])
def test_two_ranks_train_as_one_with_the_whole_batch(engine: Callable[..., Found], tmp_path: Path) -> None:
    found = engine(tmp_path)
    for case in ("plain", "one-bucket", "clipped", "shard"):
        losses, parameters, state = alone(case)
        np.testing.assert_allclose(found[f"{case}/losses"], losses, rtol=0, atol=1e-6)
        np.testing.assert_allclose(found[f"{case}/parameters"], parameters, rtol=0, atol=1e-6)
        assert found[f"{case}/state"] <= (state if case != "shard" else state * 0.55)
    for case, least, most in (("bf16", 1e-7, 2e-3), ("bf16-shard", 1e-7, 2e-3), ("top", 1e-3, 0.2)):
        off = np.abs(found[f"{case}/parameters"] - alone(case)[1]).max()
        assert least < off < most, case
    np.testing.assert_array_equal(found["top/parameters"], found["top-shard/parameters"])


@pytest.mark.long
@pytest.mark.parametrize("engine", [by_gloo, by_mpi])
def test_four_ranks_train_as_one_with_the_whole_batch_and_as_in_another_run(
    engine: Callable[..., Found], tmp_path: Path
) -> None:
    cases = ("plain", "shard")
    found, again = engine(tmp_path, *cases, count=4), engine(tmp_path, *cases, count=4)
    for case in cases:
        losses, parameters, _ = alone(case)
        np.testing.assert_allclose(found[f"{case}/losses"], losses, rtol=0, atol=1e-6)
        np.testing.assert_allclose(found[f"{case}/parameters"], parameters, rtol=0, atol=1e-6)
    for name, value in found.items():
        assert value.tobytes() == again[name].tobytes(), name


def test_bits_are_those_of_another_run_and_of_the_other_engine(tmp_path: Path) -> None:
    first, again, other = by_gloo(tmp_path, "plain"), by_gloo(tmp_path, "plain"), by_mpi(tmp_path, "plain")
    for found in (again, other):
        np.testing.assert_array_equal(
            first["plain/parameters"].view(np.int32), found["plain/parameters"].view(np.int32)
        )


@pytest.mark.parametrize("case", ["plain", "shard"])
def test_a_killed_rank_costs_a_step_at_most_and_no_bits(case: str, tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    restarted = [*torchrun("--max-restarts", "1"), str(PROGRAM), "gloo"]
    found = run(restarted, tmp_path / "killed.npz", "killed", str(tmp_path / "run"), case, "1", "3")
    steps = len((tmp_path / "killed.rank0").read_text().split())
    assert 2 * train_ranks.STEPS <= steps <= 2 * train_ranks.STEPS + 1
    expected = run(
        [*torchrun(), str(PROGRAM), "gloo"], tmp_path / "whole.npz", "killed", str(tmp_path / "w"), case, "9", "9"
    )
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)


def test_a_killed_rank_ends_all_by_mpi_and_costs_a_step_at_most_when_started_again(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    arguments = ("killed", str(tmp_path / "run"), "plain", "1", "3")
    command = [*mpiexec(), str(tmp_path / "killed.npz"), *arguments]
    ended = subprocess.run(command, cwd=PROGRAM.parents[3], capture_output=True, text=True, timeout=600)
    assert ended.returncode != 0
    found = run(mpiexec(), tmp_path / "killed.npz", *arguments)
    steps = len((tmp_path / "killed.rank0").read_text().split())
    assert 2 * train_ranks.STEPS <= steps <= 2 * train_ranks.STEPS + 1
    expected = run(mpiexec(), tmp_path / "whole.npz", "killed", str(tmp_path / "w"), "plain", "9", "9")
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)


def test_a_rank_that_has_left_is_an_error_of_the_others_and_no_hang(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    found = run([*torchrun(), str(PROGRAM), "gloo"], tmp_path / "left.npz", "left")
    assert "a rank is gone, or was silent for 10 s" in str(found["error"])
    assert "begins again from the last checkpoint" in str(found["error"])


class _Pair:
    """One of two ranks in this process whose other has the same gradients."""

    rank, size = 1, 2

    def send(self, array: np.ndarray, to: int) -> Any:
        raise AssertionError

    receive = send

    def gather(self, own: np.ndarray, into: np.ndarray) -> None:
        into[:] = own

    def broadcast(self, array: np.ndarray, root: int) -> None:
        pass


def test_stages_compute_the_gradients_of_the_whole_step() -> None:
    loss, parameters = train_ranks.network(8)
    gradients = relay.transform.adjoints(loss, parameters)
    order = [4, 2, 3, 0, 1]
    stages = cut([[loss, gradients[4]], *[[gradients[index]] for index in order[1:]]])
    batch = {key: value[:8] for key, value in train_ranks.batches()[0].items()}
    known: dict[str, Any] = {**batch, **train_ranks.values()}
    found = []
    for number, stage in enumerate(stages):
        results = relay.interpret(stage.module, [known[name] for name in stage.takes])
        results = list(results) if isinstance(results, list | tuple) else [results]
        own = 2 if number == 0 else 1
        known.update(zip(stage.kept, results[own:], strict=True))
        found.append(results[own - 1])
    assert sum(len(stage.kept) for stage in stages) > 0
    for index, gradient in zip(order, found, strict=True):
        single = cut([[gradients[index]]])[0]
        wanted = relay.interpret(single.module, [known[name] for name in single.takes])
        wanted = wanted[0] if isinstance(wanted, list | tuple) else wanted
        np.testing.assert_allclose(gradient, wanted, rtol=1e-6)


def test_buckets_weigh_latency_against_overlap() -> None:
    ready, nbytes = [1.0, 2.0, 3.0, 4.0], [100, 100, 100, 100]
    assert choose_buckets(ready, nbytes, Link(0.0, 1e12), 2) == [4]  # nothing to hide
    assert choose_buckets(ready, nbytes, Link(0.0, 100.0), 2) == [1, 2, 3, 4]  # each second of the backward pass counts
    assert choose_buckets(ready, nbytes, Link(10.0, 100.0), 2) == [4]  # messages are what costs
    assert choose_buckets(ready, nbytes, Link(0.3, 150.0), 2)[0] < 4


@pytest.mark.parametrize(("compression", "shard"), [(None, False), (None, True), ("bf16", False), ("bf16", True)])
def test_pieces_are_summed_in_the_order_of_the_ranks(compression: str | None, shard: bool) -> None:
    gradients = np.random.default_rng(3).standard_normal((3, 700_001)).astype("float32")

    def reduced(ranks: ThreadRanks) -> tuple[np.ndarray, np.ndarray]:
        bucket = Bucket([(700_001,)], ranks.size)
        bucket.views[0][:] = gradients[ranks.rank]
        own = Reducer(bucket, ranks, compression, shard)()
        return own.copy(), bucket.views[0].copy()

    found = in_threads(3, reduced)
    wire = ml_dtypes.bfloat16 if compression else np.float32
    sent = gradients.astype(wire).astype("float32")
    mean = (sent[0] + sent[1] + sent[2]) * np.float32(1 / 3)
    if shard:
        parts = np.concatenate([own for own, _ in found])
        np.testing.assert_array_equal(parts[: mean.size], mean)
    else:
        for _, whole in found:
            np.testing.assert_array_equal(whole, mean.astype(wire).astype("float32"))
    assert piece_bytes(gradients[0].nbytes / 3) < gradients[0].nbytes / 6  # or there was nothing to put in order


def test_errors_say_what_to_do() -> None:
    loss, parameters = train_ranks.network(8)

    def begin(**options: Any) -> DistributedTrainer:
        return DistributedTrainer(loss, parameters, options.pop("optimizer", SGD(0.1)), train_ranks.values(), **options)

    with pytest.raises(InputError, match="the engines are gloo, mpi"):
        begin(ranks="smoke-signals")
    with pytest.raises(InputError, match="has no send"):
        begin(ranks=3)
    with pytest.raises(InputError, match="compression='zip': there are"):
        begin(ranks=None, compression="zip")
    with pytest.raises(InputError, match="share of 0 of the gradients"):
        TopK(0)
    for optimizer in (ClippedByNorm(SGD(0.1), 1.0), Adafactor()):
        with pytest.raises(InputError, match="updates each element by itself; " + type(optimizer).__name__):
            begin(ranks=None, shard=True, optimizer=optimizer)
    with pytest.raises(InputError, match="no initial value for the parameters w1"):
        DistributedTrainer(loss, parameters, SGD(0.1), {}, ranks=None)
    with pytest.raises(TypeMismatchError, match="must be one number"):
        DistributedTrainer(parameters[0], parameters, SGD(0.1), {}, ranks=None)
    trainer = begin(ranks=_Pair())
    with pytest.raises(InputError, match="takes the inputs"):
        trainer(x=np.zeros((8, 10), "float32"))


@pytest.mark.parametrize(("engine", "module"), [("gloo", "torch"), ("mpi", "mpi4py")])
def test_an_engine_that_is_missing_is_named(engine: str, module: str) -> None:
    if importlib.util.find_spec(module) is not None:
        pytest.skip(f"{module} is installed")
    loss, parameters = train_ranks.network(8)
    with pytest.raises(EnvironmentError_, match=f"needs the package {module}"):
        DistributedTrainer(loss, parameters, SGD(0.1), train_ranks.values(), ranks=engine)


def test_gloo_without_torchrun_says_how_to_start() -> None:
    pytest.importorskip("torch")
    loss, parameters = train_ranks.network(8)
    with pytest.raises(EnvironmentError_, match="torchrun --nproc-per-node"):
        DistributedTrainer(loss, parameters, SGD(0.1), train_ranks.values(), ranks="gloo")


def test_a_state_with_rests_of_gradients_is_restored() -> None:
    batch = {key: value[:8] for key, value in train_ranks.batches()[0].items()}
    loss, parameters = train_ranks.network(8)
    options: dict[str, Any] = {"ranks": _Pair(), "compression": TopK(0.2), "threads": 1}
    first = DistributedTrainer(loss, parameters, SGD(0.1, momentum=0.9), train_ranks.values(), **options)
    first(**batch)
    other = DistributedTrainer(loss, parameters, SGD(0.1, momentum=0.9), train_ranks.values(), **options)
    other.restore(first.parameters, first.state)
    assert float(first(**batch)[0]) == float(other(**batch)[0])
    for name, value in first.parameters.items():
        np.testing.assert_array_equal(value, other.parameters[name])
    with pytest.raises(InputError, match="another network or optimizer"):
        other.restore(first.parameters, {})


def test_a_memory_limit_holds_for_forward_and_backward_pass_and_changes_no_bits() -> None:
    x, weights = relay.var("x", shape=(256, 64)), [relay.var(f"w{index}", shape=(64, 64)) for index in range(6)]
    value: relay.Expr = x
    for weight in weights:
        value = relay.tanh(relay.nn.dense(value, weight))
    rng = np.random.default_rng(4)
    first = {weight.name: rng.standard_normal((64, 64), np.float32) for weight in weights}

    def trained(limit: int | None) -> tuple[int, dict[str, np.ndarray]]:
        options: dict[str, Any] = {"ranks": None, "memory_limit": limit, "threads": 1, "link": train_ranks.FAST}
        trainer = DistributedTrainer(relay.mean(value * value), weights, SGD(0.1), first, **options)
        trainer(x=first["w0"].repeat(4, axis=0))
        return trainer._stages[0]._executable.manifest.plans[0].arena_bytes, trainer.parameters

    whole, parameters = trained(None)
    less, same = trained(int(whole * 0.7))
    assert less <= whole * 0.7
    for name, found in parameters.items():
        np.testing.assert_array_equal(found, same[name])
    with pytest.raises(UnsupportedError, match="the memory limit is 1000: set it to"):
        trained(1000)
    with pytest.raises(InputError, match="the memory limit is a number of bytes, and 0 is none"):
        trained(0)


class _Told:
    """One of two ranks in this process; the other has the checkpoints `others`."""

    rank, size = 1, 2

    def __init__(self, others: list[int], contents: bytes = b"") -> None:
        self.others, self.contents = others, np.frombuffer(contents, np.uint8)

    def send(self, array: np.ndarray, to: int) -> Any:
        raise AssertionError

    receive = send

    def gather(self, own: np.ndarray, into: np.ndarray) -> None:
        into[0], into[1] = self.others, own

    def broadcast(self, array: np.ndarray, root: int) -> None:
        assert root == 0
        array[:] = self.contents if array.dtype == np.uint8 else self.contents.size


def test_the_last_checkpoint_is_one_that_all_ranks_have_or_can_take(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    for step in (4, 5):
        saved = Checkpoint({"w": np.full(3, step, "float32")}, {}, {"step": step})
        Checkpoints(tmp_path / "own").save(step, saved)
        Checkpoints(tmp_path / "other").save(step + 1, saved)
    last = RankCheckpoints(tmp_path / "own", 1, 2, _Told([5, 6])).last()
    assert last is not None and last.position == {"step": 5}
    with pytest.raises(InputError, match=r"no checkpoint of one step \(the last are: rank 0 9, rank 1 5"):
        RankCheckpoints(tmp_path / "own", 1, 2, _Told([8, 9])).last()
    assert RankCheckpoints(tmp_path / "none", 1, 2, _Told([-1, -1])).last() is None
    contents = (tmp_path / "other" / "step-000000006.safetensors").read_bytes()
    taken = RankCheckpoints(tmp_path / "empty", 1, 2, _Told([5, 6], contents), alike=True)
    found = taken.last()
    assert found is not None and found.parameters["w"][0] == 5 and taken.steps() == [6]
