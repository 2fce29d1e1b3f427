"""Archives of models: unpacked within bounds, and the file in them that is the model."""

from __future__ import annotations

import tarfile
from pathlib import Path, PurePosixPath

from tilewright.errors import InputError

_MOST_FILES, _MOST_DEPTH = 10_000, 32
_CHUNK = 1 << 20
#: Names that a model's main file ends in, by framework; weights lie beside some of them.
_ENDINGS = {
    "TENSORFLOW": ("saved_model.pb", ".pb"), "KERAS": (".keras", ".h5", ".hdf5"), "MXNET": ("-symbol.json",),
    "ONNX": (".onnx",), "PYTORCH": (".pt2", ".pth", ".pt"), "TFLITE": (".tflite",), "DARKNET": (".cfg",),
    "XGBOOST": (".onnx", ".json", ".ubj", ".model"), "SKLEARN": (".onnx",),
}  # fmt: skip


#: Of a model whose framework nobody named.
_ENDINGS[""] = tuple(dict.fromkeys(ending for endings in _ENDINGS.values() for ending in endings))


def model_in(file: Path, framework: str, folder: Path, most: int) -> Path:
    """The model of a file: itself, or of an archive what is unpacked to `folder`, `most` bytes in all.

    Raises `InputError` for an archive that is damaged, too large, or has no model of the framework.
    """
    if not tarfile.is_tarfile(file):
        return file
    _unpack(file, folder, most)
    for ending in _ENDINGS[framework]:
        found = sorted(path for path in folder.rglob("*") if path.name.endswith(ending) and path.is_file())
        if len(found) > 1:
            names = ", ".join(str(path.relative_to(folder)) for path in found[:5])
            raise InputError(f"the archive has several models: {names}; pack one")
        if found:
            return found[0].parent if ending == "saved_model.pb" else found[0]
    raise InputError(f"the archive has no file of {framework}, whose names end in {', '.join(_ENDINGS[framework])}")


def _unpack(file: Path, folder: Path, most: int) -> None:
    """Write the files of an archive below `folder`; links, devices and names that lead elsewhere are refused."""
    left = most
    try:
        with tarfile.open(file) as archive:
            for count, member in enumerate(archive):
                name = PurePosixPath(member.name)
                if count == _MOST_FILES:
                    raise InputError(f"the archive has more than {_MOST_FILES} files")
                if member.isdir():
                    continue
                if not member.isfile() or name.is_absolute() or ".." in name.parts:
                    raise InputError(f"the archive's {member.name!r} is no file below it")
                if len(name.parts) > _MOST_DEPTH:
                    raise InputError(f"the archive has more than {_MOST_DEPTH} folders in each other")
                left = _copy(archive, member, folder / name, left, most)
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        raise InputError(f"the archive cannot be unpacked: {error}") from None


def _copy(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path, left: int, most: int) -> int:
    """Write one file, and the bytes that the others may have."""
    target.parent.mkdir(parents=True, exist_ok=True)
    source = archive.extractfile(member)
    assert source is not None, "a file has contents"
    with source, target.open("wb") as copy:
        while part := source.read(_CHUNK):
            left -= len(part)
            if left < 0:
                raise InputError(f"the archive holds more than {most} bytes")
            copy.write(part)
    return left
