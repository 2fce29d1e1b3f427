"""The user's data: samples with an array for each input, read from files or memory, checked, and split in three.

data/images.npz with x: float32[500, 3, 32, 32], for an input x: float32[1, 3, 32, 32], is 500 samples.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tilewright.errors import InputError
from tilewright.relay.ir.type import TensorType
from tilewright.support.dtype import DType

Array = np.ndarray[Any, Any]
Sample = dict[str, Array]
#: A file or folder of .npz, arrays by name with a leading axis of samples, or one mapping a sample.
DataSource: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | Iterable[Mapping[str, Any]]

#: The shares of the samples that ranges are found on, that layers are chosen on; the others are held out.
_CALIBRATION, _SEARCH = 0.5, 0.25
_SEED = 0
#: The errors of numpy.load for files that are damaged, or others.
_UNREADABLE = (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True)
class Input:
    """An input of a model: symbolic dimensions are None."""

    name: str
    shape: tuple[int | None, ...]
    dtype: DType

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join('?' if dim is None else str(dim) for dim in self.shape)}]"


@dataclass(frozen=True)
class Split:
    """The samples by purpose, disjoint where there are three at least: their numbers, in order."""

    calibration: tuple[int, ...]
    search: tuple[int, ...]
    held_out: tuple[int, ...]


def split(count: int) -> Split:
    """`count` samples in three by a fixed seed: half to calibrate, a quarter to search, a quarter held out.

    Each has one sample at least; fewer than three samples serve several purposes.
    """
    order = np.random.default_rng(_SEED).permutation(count)
    first = min(max(int(count * _CALIBRATION), 1), max(count - 2, 1))
    second = min(first + max(int(count * _SEARCH), 1), max(count - 1, 1))
    parts = order[:first], order[first:second], order[second:]
    return Split(*(tuple(sorted(int(i) for i in (part if len(part) else order[-1:]))) for part in parts))


def inputs_of(params: Sequence[Any]) -> list[Input]:
    """The inputs of a function by its parameters. Raises `InputError` for one that is no tensor."""
    found = []
    for param in params:
        type_ = param.type_annotation
        if not isinstance(type_, TensorType):
            raise InputError(f"input {param.name_hint} is no tensor, and has no samples; quantize a part without it")
        shape = tuple(dim if isinstance(dim, int) else None for dim in type_.shape)
        found.append(Input(param.name_hint, shape, type_.dtype))
    return found


def read_samples(data: DataSource | None, inputs: Sequence[Input]) -> list[Sample]:
    """The samples of `data`, each with an array for each of `inputs`, in its dtype.

    Raises `InputError`, one message each: no data, an input that is missing, shapes that differ, NaN or infinity.
    """
    if data is None:
        raise InputError(
            "there is no data to calibrate on; pass --data FILE.npz with some tens of typical inputs, or --recipe FILE "
            "of an earlier run"
        )
    if isinstance(data, str | os.PathLike):
        samples = [one for path in _files(Path(data)) for one in _unstacked(_loaded(path), inputs, f"{path}")]
    elif isinstance(data, Mapping):
        samples = _unstacked(dict(data), inputs, "the data")
    else:
        samples = [_sample(one, inputs, f"sample {number}") for number, one in enumerate(data)]
    if not samples:
        raise InputError("the data has no samples; pass some tens of typical inputs")
    _check_alike(samples)
    return samples


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise InputError(f"--data {path}: there is no such file")
    found = sorted(path.glob("*.npz")) if path.is_dir() else [path]
    if not found:
        raise InputError(f"--data {path}: the folder has no .npz files; write some with numpy.savez(FILE, input=array)")
    return found


def _loaded(path: Path) -> dict[str, Array]:
    try:
        archive = np.load(path, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise InputError(f"--data {path} is one array; write it with numpy.savez(FILE, input=array)")
        with archive:
            return {name: archive[name] for name in archive.files}
    except _UNREADABLE as error:
        reason = "it is none, or damaged" if isinstance(error, ValueError | EOFError) else str(error)
        raise InputError(
            f"--data {path} cannot be read as .npz ({reason}); write it with numpy.savez(FILE, input=array)"
        ) from None


def _unstacked(arrays: Mapping[str, Any], inputs: Sequence[Input], where: str) -> list[Sample]:
    """The samples of arrays with a leading axis of them."""
    _check_names(arrays, inputs, where)
    parts = {one.name: _parts(np.asarray(arrays[one.name]), one, where) for one in inputs}
    counts = {name: len(part) for name, part in parts.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise InputError(f"{where}: inputs have different numbers of samples ({listed}); all need as many")
    count = next(iter(counts.values()), 0)
    return [_sample({name: part[i] for name, part in parts.items()}, inputs, where) for i in range(count)]


def _parts(array: Array, one: Input, where: str) -> Sequence[Array]:
    """The array of each sample: along an axis before the model's own, or along the batch, as many as a run takes."""
    rank = len(one.shape)
    if array.ndim == rank + 1:
        return list(array)
    if array.ndim == rank and rank:
        batch = one.shape[0] or 1
        return [array[i : i + batch] for i in range(0, len(array) - batch + 1, batch)]
    raise InputError(f"{where}: {one.name} has shape {list(array.shape)}; the model's input is {one}, samples lead")


def _check_names(arrays: Mapping[str, Any], inputs: Sequence[Input], where: str) -> None:
    missing = [one for one in inputs if one.name not in arrays]
    if missing:
        have = ", ".join(arrays) or "nothing"
        raise InputError(f"{where} has no array for the input {missing[0]}; it has: {have}")


def _sample(arrays: Mapping[str, Any], inputs: Sequence[Input], where: str) -> Sample:
    _check_names(arrays, inputs, where)
    made = {}
    for one in inputs:
        array = np.asarray(arrays[one.name])
        fits = array.ndim == len(one.shape) and all(
            dim is None or dim == size for dim, size in zip(one.shape, array.shape)
        )
        if not fits:
            raise InputError(f"{where}: a sample of {one.name} has shape {list(array.shape)}; the input is {one}")
        made[one.name] = _converted(array, one, where)
    return made


def _converted(array: Array, one: Input, where: str) -> Array:
    """The array in the dtype of its input. Raises `InputError` where values are none of it."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise InputError(f"{where}: {one.name} holds NaN or infinity; leave out the samples that do")
    if array.dtype.kind not in "biuf" or (one.dtype.is_int and array.dtype.kind == "f"):
        raise InputError(f"{where}: {one.name} is {array.dtype}, but the input is {one}; convert it")
    with np.errstate(over="ignore"):
        made = np.ascontiguousarray(array, dtype=one.dtype.numpy)
    if not (np.array_equal(made, array) if one.dtype.is_int else np.isfinite(made).all()):
        raise InputError(f"{where}: {one.name} holds numbers that {one.dtype} has not; the input is {one}")
    return made


def _check_alike(samples: Sequence[Sample]) -> None:
    """Raise InputError where samples differ in shape: one compiled model runs them all."""
    for number, sample in enumerate(samples):
        for name, array in sample.items():
            if array.shape != samples[0][name].shape:
                raise InputError(
                    f"samples of {name} differ in shape: {list(samples[0][name].shape)} of the first, "
                    f"{list(array.shape)} of number {number}; calibrate on one shape"
                )


def read_labels(labels: Any, count: int) -> Array | None:
    """The class of each sample, of a file .npy or an array. Raises `InputError` where there are not `count`."""
    if labels is None:
        return None
    if isinstance(labels, str | os.PathLike):
        try:
            labels = np.load(labels, allow_pickle=False)
        except _UNREADABLE as error:
            raise InputError(f"--labels {labels} is no .npy file of numbers: {error}") from None
    found = np.asarray(labels)
    if found.ndim != 1 or found.dtype.kind not in "iu" or len(found) != count:
        raise InputError(
            f"labels are {found.dtype}{list(found.shape)}; they are one whole number for each of {count} samples"
        )
    return found
