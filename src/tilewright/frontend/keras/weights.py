"""The weights of a model, by layer: groups of numbered variables (`.keras`), or named ones (legacy `.h5`).

What a data set says of itself is checked before anything is read: plain numbers in this very file, no more of them than
the file can hold.
"""

from __future__ import annotations

import io
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import EnvironmentError_, ModelError

#: A compressed data set is at most so many times as large as what is stored of it.
_MOST_GROWTH = 1100


def open_hdf5(label: str, data: bytes) -> Any:
    """An `h5py.File` of bytes. Raises `EnvironmentError_` where h5py is missing, `ModelError` for a damaged file."""
    try:
        import h5py  # optional
    except ImportError:
        raise EnvironmentError_(
            "h5py is not installed, with which the weights of Keras models are read; "
            "`pip install tilewright[keras]` installs it"
        ) from None
    try:
        return h5py.File(io.BytesIO(data), "r")
    except Exception as error:  # the library raises OSError, RuntimeError, KeyError …
        raise ModelError(f"{label}: its HDF5 file cannot be read: {error}") from None


class Weights(ABC):
    """The variables of one layer, and those of the layers inside it."""

    #: Where they are in an archive.
    path = ""

    @abstractmethod
    def own(self, names: Sequence[str]) -> list[np.ndarray] | None:
        """The layer's own variables, which Keras calls `names`, in this order; None where the file has none."""

    @abstractmethod
    def child(self, attribute: str, name: str) -> Weights:
        """Those of a layer inside, the `attribute` of this one, which is called `name`."""

    def has(self, name: str) -> bool:
        """True where a legacy file has a variable of this name."""
        return False

    def children(self, attribute: str, kinds: Sequence[str], names: Sequence[str]) -> list[Weights]:
        """Those of a list of layers inside, of these classes and names."""
        return [self.child(f"{attribute}/{group}", name) for group, name in zip(group_names(kinds), names)]


def group_names(kinds: Sequence[str]) -> list[str]:
    """The names of the groups of a list of layers: by class, numbered from the second on."""
    used: dict[str, int] = {}
    result = []
    for kind in kinds:
        name = _snake_case(_CLASSES.get(kind, kind))
        used[name] = used.get(name, -1) + 1
        result.append(f"{name}_{used[name]}" if used[name] else name)
    return result


#: Layers whose class is not called as they are in keras.layers.
_CLASSES = {"GroupQueryAttention": "GroupedQueryAttention"}


def _snake_case(name: str) -> str:
    name = re.sub(r"\W+", "", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)).lower()


class _Stored(Weights):
    """A group `…/vars` of numbered variables."""

    def __init__(self, file: Any, path: str, label: str) -> None:
        self._file, self.path, self._label = file, path, label

    def own(self, names: Sequence[str]) -> list[np.ndarray] | None:
        group = _get(self._file, f"{self.path}/vars".lstrip("/"), self._label)
        if group is None or not hasattr(group, "keys"):
            return None
        found = [_get(group, str(index), self._label) for index in range(len(names))]
        if found and found[0] is None:
            return None
        for name, data in zip(names, found):
            if data is None:
                raise ModelError(f"{self._label}: {self.path!r} has no variable for {name!r}")
        return [read(data, f"{self._label}: {self.path}/{name}") for name, data in zip(names, found)]

    def child(self, attribute: str, name: str) -> Weights:
        return _Stored(self._file, f"{self.path}/{attribute}".lstrip("/"), self._label)


class _Named(Weights):
    """Named variables of one layer of a legacy file, `lstm/lstm_cell/kernel:0`."""

    def __init__(self, entries: Sequence[tuple[str, Any]], label: str) -> None:
        self._entries, self._label = entries, label

    def own(self, names: Sequence[str]) -> list[np.ndarray] | None:
        if not self._entries:
            return None
        if len(names) == len(self._entries) == 1:  # Keras numbers variables that were given no name
            return [read(self._entries[0][1], f"{self._label}: {names[0]}")]
        result = []
        for name in names:
            found = [data for path, data in self._entries if _last(path) == name]
            if len(found) != 1:
                listed = ", ".join(path for path, _ in self._entries[:8])
                raise ModelError(f"{self._label}: there are {len(found)} variables {name!r} among {listed}")
            result.append(read(found[0], f"{self._label}: {name}"))
        return result

    def has(self, name: str) -> bool:
        return any(_last(path) == name for path, _ in self._entries)

    def child(self, attribute: str, name: str) -> Weights:
        kept = [(path, data) for path, data in self._entries if name in path.split("/")[:-1]]
        return _Named(kept or self._entries, self._label)


class _Missing(Weights):
    def own(self, names: Sequence[str]) -> list[np.ndarray] | None:
        return None

    def child(self, attribute: str, name: str) -> Weights:
        return self


class _Layers(Weights):
    """The groups of a legacy file: `child("layers/…", NAME)` is the group NAME."""

    def __init__(self, group: Any, label: str) -> None:
        self._group, self._label = group, label

    def own(self, names: Sequence[str]) -> list[np.ndarray] | None:
        return None

    def child(self, attribute: str, name: str) -> Weights:
        group = _get(self._group, name, self._label)
        if group is None:
            return _Missing()
        entries = []
        for path in _texts(group, "weight_names", self._label):
            data = _get(group, path, self._label)
            if data is None:
                raise ModelError(f"{self._label}: the weight {path!r} of layer {name!r} is not there")
            entries.append((path, data))
        return _Named(entries, f"{self._label}: layer {name!r}")


def stored_weights(file: Any, label: str) -> Weights:
    """Those of a `.keras` archive."""
    return _Stored(file, "", label)


def flat_weights(file: Any, label: str) -> Weights:
    """Those of a legacy file."""
    group = _get(file, "model_weights", label)
    return _Layers(file if group is None else group, label)


def no_weights(label: str) -> Weights:
    """Those of a model without any."""
    return _Missing()


def _last(path: str) -> str:
    return re.sub(r":\d+$", "", path.rpartition("/")[2])


def _get(group: Any, path: str, label: str) -> Any:
    """The group or data set at a path of this file, or None. Links to other files are refused."""
    import h5py  # the caller has it

    try:
        for part in path.split("/"):
            if not isinstance(group, h5py.Group):
                return None
            link = group.get(part, getlink=True)
            if link is None:
                return None
            if not isinstance(link, h5py.HardLink):
                raise ModelError(f"{label}: {path!r} is a link, which is never followed")
            group = group[part]
        return group
    except ModelError:
        raise
    except Exception as error:  # whatever the library meets in a damaged file
        raise ModelError(f"{label}: {path!r} cannot be read: {type(error).__name__}: {error}") from None


def _texts(group: Any, name: str, label: str) -> list[str]:
    """An attribute of texts, which Keras cuts in pieces where it is long."""
    try:
        pieces = [group.attrs[name]] if name in group.attrs else []
        while f"{name}{len(pieces)}" in group.attrs:
            pieces.append(group.attrs[f"{name}{len(pieces)}"])
        return [
            item.decode("utf-8") if isinstance(item, bytes) else str(item) for piece in pieces for item in list(piece)
        ]
    except Exception as error:  # whatever the library meets in a damaged file
        raise ModelError(f"{label}: {name} cannot be read: {type(error).__name__}: {error}") from None


def read(data: Any, what: str) -> np.ndarray:
    """The array of a data set. Raises `ModelError` where it is none of plain numbers that are in this file."""
    import h5py  # the caller has it

    try:
        if not isinstance(data, h5py.Dataset):
            raise ModelError(f"{what} is no data set")
        kind = data.dtype
        brain = kind.names is None and kind.kind == "V" and kind.itemsize == 2  # bfloat16 as its bytes
        if kind.kind not in "biuf" and not brain:
            raise ModelError(f"{what} holds {kind}, not numbers")
        if data.is_virtual or data.external:
            raise ModelError(f"{what} is in another file, which is never read")
        stored = data.id.get_storage_size()
        limit = stored * _MOST_GROWTH if data.chunks else stored
        if data.size * kind.itemsize > limit:
            raise ModelError(f"{what} says it has {data.size} numbers, of which {stored} bytes are stored")
        array = np.asarray(data[()])
        if data.attrs.get("dtype") == "bfloat16" or brain:
            import ml_dtypes

            array = array.view(ml_dtypes.bfloat16)
        return array
    except ModelError:
        raise
    except Exception as error:  # whatever the library meets in a damaged file
        raise ModelError(f"{what} cannot be read: {type(error).__name__}: {error}") from None
