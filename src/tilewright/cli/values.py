"""Syntax of `--input NAME=VALUE` (a file, values, a range to draw from) and the array that it denotes.

    x=FILE.npy  x=FILE.npz  FILE.npz      an array; of an archive the one called x, or its only one; all it holds
    sr=16000  mask=true                   that value everywhere
    ids=[[1,2,3]]  text=["a","b"]         these values, as JSON
    x=uniform(0,1)  x=0..255  x=normal(0.5,0.2)   drawn from there, both ends of integers included

Behind one value or what is drawn may stand a shape, `x=uniform(0,1)[1,3,224,224]`.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.signature import TensorSpec

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

FORMS = "NAME=FILE.npy, NAME=FILE.npz, NAME=NUMBER, NAME=[VALUES], NAME=LOW..HIGH, NAME=uniform(LOW,HIGH) or FILE.npz"
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?inf|nan"
_DRAWN = re.compile(
    rf"(?P<kind>uniform|normal)\(\s*(?P<a>{_NUMBER})\s*,\s*(?P<b>{_NUMBER})\s*\)|(?P<low>{_NUMBER})\.\.(?P<high>{_NUMBER})"
)
_SHAPED = re.compile(r"(?P<value>[^\[]+?)\s*(?:\[(?P<shape>[\d,\s]*)\])?")


@dataclass(frozen=True)
class Given:
    """An input as it was given. `shape` is None where it takes the shape of the input; `drawn` needs random numbers."""

    text: str
    shape: Shape | None
    make: Callable[[TensorSpec, Shape, np.random.Generator], Array]
    drawn: bool = False


def parse_inputs(texts: tuple[str, ...]) -> dict[str, Given]:
    """`("x=a.npy", "sr=16000", ...)` by the names of the inputs, files read. Raises InputError with the forms known."""
    values: dict[str, str] = {}
    archives = []
    for text in texts:
        name, value = _split(text)
        if name in values:
            raise InputError(f"--input sets {name!r} twice, as {values[name]} and as {value}")
        if name:
            values[name] = value
        else:
            archives.append(value)
    found = {name: _value(name, value) for name, value in values.items()}
    for path in archives:
        for name, array in _archive(path, Path(path)).items():
            if name in found:
                raise InputError(f"--input sets {name!r} twice, as {found[name].text} and in {path}")
            found[name] = stored(array, f"{path}:{name}")
    return found


def _split(text: str) -> tuple[str, str]:
    """Name and value of one `--input`; no name for an archive. Names may hold equal signs, and so may listed texts."""
    name, separator, value = text.partition("=[") if text.endswith("]") and "=[" in text else text.rpartition("=")
    if not separator and Path(text).suffix == ".npz":
        return "", text
    if not separator or not name or not value:
        raise InputError(f"--input {text!r} is not understood; write it as {FORMS}")
    return name, f"[{value}" if separator == "=[" else value


def _value(name: str, text: str) -> Given:
    if text.startswith("["):
        return _listed(name, text)
    split = _SHAPED.fullmatch(text)
    plain = split["value"] if split is not None else text
    shape = None if split is None or split["shape"] is None else _dims(name, split["shape"])
    drawn = _DRAWN.fullmatch(plain)
    if drawn is not None:
        return _drawn(name, drawn, text, shape)
    if plain in ("true", "false"):
        return _filled(name, plain == "true", text, shape)
    if re.fullmatch(_NUMBER, plain):
        return _filled(name, int(plain) if re.fullmatch(r"[-+]?\d+", plain) else float(plain), text, shape)
    path = Path(text)
    if path.suffix not in (".npy", ".npz") and not path.exists():
        raise InputError(f"input {name!r}: {text!r} is neither a file nor a value; write it as {FORMS}")
    if path.suffix != ".npz":
        return stored(_read(name, path, _npy), text)
    arrays = _archive(name, path)
    if name not in arrays and len(arrays) != 1:
        raise InputError(f"input {name!r}: {path} holds {', '.join(arrays) or 'nothing'}, and no array of that name")
    return stored(arrays[name] if name in arrays else next(iter(arrays.values())), text)


def stored(array: Array, text: str) -> Given:
    """An array as it is; of bfloat16 and narrower floats, which files have no names for, as float32."""

    def make(spec: TensorSpec, shape: Shape, generator: np.random.Generator) -> Array:
        widened = array.dtype == np.float32 and spec.dtype.is_float and spec.numpy.kind == "V"
        return array.astype(spec.numpy) if widened else array

    return Given(text, array.shape, make)


def _listed(name: str, text: str) -> Given:
    try:
        values = np.array(json.loads(text))
    except ValueError as error:  # no JSON, or rows of different lengths
        raise InputError(f"input {name!r}: {text} is not a list of values: {error}") from None
    return Given(text, values.shape, lambda spec, shape, generator: _exactly(spec, values, text))


def _filled(name: str, value: bool | int | float, text: str, shape: Shape | None) -> Given:
    return Given(text, shape, lambda spec, full, generator: np.full(full, _exactly(spec, np.array(value), text)))


def _drawn(name: str, found: re.Match[str], text: str, shape: Shape | None) -> Given:
    low, high = (float(found[group]) for group in (("a", "b") if found["kind"] else ("low", "high")))
    if found["kind"] == "normal":
        return Given(text, shape, lambda spec, full, generator: _normal(spec, full, generator, low, high), True)
    if not low <= high or not np.isfinite([low, high]).all():
        raise InputError(f"input {name!r}: the range {text} is empty")
    return Given(text, shape, lambda spec, full, generator: _uniform(spec, full, generator, low, high), True)


def _normal(spec: TensorSpec, shape: Shape, generator: np.random.Generator, mean: float, deviation: float) -> Array:
    if not spec.dtype.is_float:
        raise InputError(f"input {spec} takes no normal distribution; write a range, {spec.name}=LOW..HIGH")
    return np.asarray(generator.standard_normal(shape) * deviation + mean).astype(spec.numpy)


def _uniform(spec: TensorSpec, shape: Shape, generator: np.random.Generator, low: float, high: float) -> Array:
    if spec.dtype.is_float:
        return np.asarray(generator.uniform(low, high, shape)).astype(spec.numpy)
    ends = _exactly(spec, np.array([low, high]), f"{low:g}..{high:g}")
    return np.asarray(integers(generator, int(ends[0]), int(ends[1]), shape)).astype(spec.numpy)


def integers(generator: np.random.Generator, low: int, high: int, shape: Shape) -> Array:
    """Integers from `low` to `high`, that one included."""
    wide = np.uint64 if high >= 2**63 else np.int64
    return np.asarray(generator.integers(low, high, shape, dtype=wide, endpoint=True))


def _exactly(spec: TensorSpec, values: Array, text: str) -> Array:
    """`values` in the type of the input. Raises InputError where that cannot hold them."""
    if spec.dtype.is_string:
        return values.astype(str).astype(object)
    if values.dtype.kind not in "biuf":
        fits = False
    elif spec.dtype.is_float:
        fits = True
    elif spec.dtype.is_bool:
        fits = bool(np.isin(values, (0, 1)).all())
    else:
        least, most = spec.dtype.limits()
        whole = values.dtype.kind != "f" or bool((np.isfinite(values) & (np.floor(values) == values)).all())
        fits = whole and bool((values >= least).all() and (values <= most).all())
    if not fits:
        raise InputError(f"input {spec} cannot hold {text}")
    return values.astype(spec.numpy)


def _dims(name: str, text: str) -> Shape:
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    if not all(part.isdigit() for part in parts):
        raise InputError(f"input {name!r}: [{text}] is not a shape; write it as [1,3,224,224]")
    return tuple(int(part) for part in parts)


def _npy(path: Path) -> Array:
    with path.open("rb") as file:
        np.lib.format.read_magic(file)
        file.seek(0)
        return np.lib.format.read_array(file, allow_pickle=False)


def _archive(name: str, path: Path) -> dict[str, Array]:
    def read(archive: Path) -> dict[str, Array]:
        with np.load(archive, allow_pickle=False) as stored_arrays:
            if not isinstance(stored_arrays, np.lib.npyio.NpzFile):
                raise ValueError("it holds a single array")
            return {key: stored_arrays[key] for key in stored_arrays.files}

    return _read(name, path, read)


def _read(name: str, path: Path, read: Callable[[Path], Any]) -> Any:
    try:
        return read(path)
    except OSError as error:
        reason = error.strerror or str(error)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        reason = str(error).splitlines()[0]
    raise InputError(f"input {name!r}: {path} cannot be read as a {path.suffix or '.npy'} file ({reason})")
