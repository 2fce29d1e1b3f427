"""The loop of a training: epochs of steps, with metrics, evaluation, checkpoints, events and an early stop.

history = fit(trainer, Arrays({"x": images, "y": labels}, batch=64), epochs=10, checkpoints=Checkpoints("run"))
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tilewright.errors import InputError
from tilewright.support.packages import package
from tilewright.training.checkpoint import Checkpoint, Checkpoints
from tilewright.training.data import Batch, Source, epoch_of
from tilewright.training.rules.optimizer import Array
from tilewright.training.trainer import Trainer

#: A figure of one batch, by the outputs of the step and its inputs.
Metric = Callable[[Sequence[Array], Batch], float]
#: Figures by name, by the parameters after an epoch.
Evaluation = Callable[[Mapping[str, Array]], Mapping[str, float]]
Figures = dict[str, float]


@dataclass(frozen=True)
class EarlyStop:
    """The end of a training whose `figure` has not become better, by more than `least`, for `patience` epochs."""

    figure: str = "loss"
    patience: int = 3
    least: float = 0.0
    maximize: bool = False

    def is_due(self, history: Sequence[Figures]) -> bool:
        """True after the last of these epochs. Raises `InputError` where they lack the figure."""
        if history and self.figure not in history[-1]:
            raise InputError(f"there is no figure {self.figure!r} to stop by; there are {', '.join(history[-1])}")
        signed = [figures[self.figure] * (-1 if self.maximize else 1) for figures in history]
        best, since = float("inf"), 0
        for value in signed:
            best, since = (value, 0) if value < best - self.least else (best, since + 1)
        return since >= self.patience


@dataclass
class _Position:
    """The position of a loop between two steps, as a checkpoint keeps it."""

    epoch: int = 0
    batch: int = 0
    step: int = 0
    sums: Figures = field(default_factory=dict)
    history: list[Figures] = field(default_factory=list)


def fit(
    trainer: Trainer,
    data: Source | Iterable[Any],
    *,
    epochs: int,
    metrics: Mapping[str, Metric] | None = None,
    evaluate: Evaluation | None = None,
    checkpoints: Checkpoints | None = None,
    stop: EarlyStop | None = None,
    events: str | Path | None = None,
    report: Callable[[str], object] | None = print,
) -> list[Figures]:
    """Train for `epochs`; of each epoch the mean loss, the means of `metrics` and the figures of `evaluate`.

    With `checkpoints` the training goes on from the last one in the folder, if there is one. `events` is a folder for
    TensorBoard. `report` gets a line an epoch; on a terminal, with the package rich, there is a bar too. Raises
    `InputError` for batches that are not the step's inputs, and for an epoch without any.
    """
    position = _Position()
    saved = checkpoints.last() if checkpoints else None
    if saved is not None:
        trainer.restore(saved.parameters, saved.state)
        position = _Position(**saved.position)
    with _written(events) as write, _bar(epochs, data) as advance:
        while position.epoch < epochs and not (stop and stop.is_due(position.history)):
            for batch in epoch_of(data, trainer.input_names, position.epoch, position.batch):
                figures = _step(trainer, batch, metrics or {})
                position.batch, position.step = position.batch + 1, position.step + 1
                for name, value in figures.items():
                    position.sums[name] = position.sums.get(name, 0.0) + value
                    write(f"step/{name}", value, position.step)
                advance(position.epoch, position.batch)
                if checkpoints and position.step % checkpoints.every == 0:
                    checkpoints.save(position.step, Checkpoint(trainer.parameters, trainer.state, asdict(position)))
            _end_epoch(position, trainer, evaluate)
            for name, value in position.history[-1].items():
                write(f"epoch/{name}", value, position.epoch)
            if report:
                shown = "  ".join(f"{name} {value:.6g}" for name, value in position.history[-1].items())
                report(f"epoch {position.epoch}  {shown}")
    return position.history


def _step(trainer: Trainer, batch: Batch, metrics: Mapping[str, Metric]) -> Figures:
    """The figures of one step."""
    loss, *outputs = trainer(**batch)
    return {"loss": float(loss)} | {name: float(metric(outputs, batch)) for name, metric in metrics.items()}


def _end_epoch(position: _Position, trainer: Trainer, evaluate: Evaluation | None) -> None:
    """Add the figures of an epoch to the history, and begin the next."""
    if not position.batch:
        raise InputError("the data have no batch; a loader that is empty, or used up after an epoch, trains nothing")
    figures = {name: value / position.batch for name, value in position.sums.items()}
    if evaluate is not None:
        figures |= {name: float(value) for name, value in evaluate(trainer.parameters).items()}
    position.history.append(figures)
    position.epoch, position.batch, position.sums = position.epoch + 1, 0, {}


@contextlib.contextmanager
def _written(folder: str | Path | None) -> Iterator[Callable[[str, float, int], object]]:
    """A function that writes a scalar for TensorBoard, by the package tensorboardX; one that does nothing without."""
    if folder is None:
        yield lambda name, value, step: None
        return
    with package("tensorboardX", "writing events for TensorBoard", "train").SummaryWriter(str(folder)) as writer:
        yield writer.add_scalar


@contextlib.contextmanager
def _bar(epochs: int, data: Any) -> Iterator[Callable[[int, int], object]]:
    """A function that shows how far the training is, by the package rich on a terminal; one that does nothing else."""
    if not sys.stderr.isatty() or importlib.util.find_spec("rich") is None:
        yield lambda epoch, batch: None
        return
    # of an extra
    from rich.console import Console
    from rich.progress import Progress

    count = len(data) if hasattr(data, "__len__") else None
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=None if count is None else count * epochs)

        def advance(epoch: int, batch: int) -> None:
            done = None if count is None else epoch * count + batch
            progress.update(task, completed=done, description=f"epoch {epoch + 1} of {epochs}, batch {batch}")

        yield advance
