"""Files passed as a model that are none: what each is, and what to pass instead.

Weights without a network, pointers to files that were not downloaded, archives, web pages. Nothing is unpickled: of a
pickle only the names are read that it would import.
"""

from __future__ import annotations

import io
import json
import pickletools
import zipfile

from tilewright.frontend.source import Source

#: The beginning of files that torch.save wrote before its zip format: a pickled magic number.
_LEGACY_TORCH = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."

#: What pickled weights import: containers, and functions that rebuild tensors.
_PLAIN_MODULES = ("collections", "torch._utils", "torch", "numpy", "builtins", "__builtin__", "_codecs")

#: Opcodes of a pickle that are looked at: the class of an object stands at its beginning.
_MOST_OPCODES = 20_000

_EXPORT = (
    "build the network in PyTorch, load the weights into it, and pass the module, or torch.export.save(torch.export."
    "export(module.eval(), (example,)), 'model.pt2')"
)


def not_a_model(source: Source) -> str | None:
    """A sentence on a file that is known to be no model: what it is and what to pass instead; None for others."""
    begin = bytes(source.contents[:64])
    if begin.startswith(b"version https://git-lfs"):
        return "it is a pointer of Git LFS, not the file itself; `git lfs pull` downloads that"
    if begin.startswith(_LEGACY_TORCH) or any(name.endswith("/data.pkl") for name in source.members):
        return _torch_pickle(source)
    if _is_safetensors(source):
        return f"it is a file of safetensors: weights without a network; {_EXPORT}"
    if begin.startswith(b"GGUF"):
        return "it is a GGUF file: weights of a language model without its network, which no format here reads"
    if begin.startswith(b"\x93NUMPY") or (source.members and all(name.endswith(".npy") for name in source.members)):
        return "it holds arrays of NumPy, not a model; pass them as inputs, with --input NAME=FILE"
    if begin[:1] == b"\x80" and begin[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return "it is a pickle, which runs code when it is read; save the model in one of these formats"
    if begin.lstrip().lower().startswith((b"<!doctype html", b"<html")):
        return "it is a web page: the download did not bring the file"
    if begin.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf", b"Rar!")):
        return "it is a compressed archive; unpack it first"
    return None


def _torch_pickle(source: Source) -> str:
    """A description of a pickle written by torch.save: a dictionary of weights, or an object of the classes that are
    named.
    """
    classes = [name for name in _imported(_pickle_of(source)) if name.split(".")[0] not in _PLAIN_MODULES]
    own = [name for name in _imported(_pickle_of(source)) if name.startswith("torch.nn.")]
    pickled = [*own, *classes]
    if pickled:
        return (
            f"it is a pickled {pickled[0]} of PyTorch, which runs code when it is read; load it where you trust "
            "it, and pass the module itself, or save it with torch.export.save or torch.jit.save"
        )
    return f"it is a checkpoint of PyTorch: weights (a state_dict) without a network; {_EXPORT}"


def _pickle_of(source: Source) -> bytes:
    if not source.members:
        return bytes(source.contents[: 1 << 20])
    name = next(name for name in source.members if name.endswith("/data.pkl"))
    try:
        with zipfile.ZipFile(source.path or io.BytesIO(source.contents)) as archive, archive.open(name) as file:
            return file.read(1 << 20)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError):
        return b""


def _imported(data: bytes) -> list[str]:
    """The names that a pickle imports, as far as it is a pickle; nothing is run."""
    found: list[str] = []
    strings: list[str] = []
    stream = io.BytesIO(data)
    try:
        while stream.tell() < len(data):  # the old format is several pickles, one after another
            for count, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
                if opcode.name == "GLOBAL":
                    found.append(str(argument).replace(" ", "."))
                elif opcode.name == "STACK_GLOBAL" and len(strings) > 1:
                    found.append(".".join(strings[-2:]))
                elif isinstance(argument, str):
                    strings.append(argument)
                if count > _MOST_OPCODES:
                    return found
    except Exception:  # whatever is wrong with a pickle, this much was read
        return found
    return found


def _is_safetensors(source: Source) -> bool:
    length = int.from_bytes(source.contents[:8], "little")
    if bytes(source.contents[8:9]) != b"{" or not 2 <= length <= min(len(source.contents) - 8, 100 << 20):
        return False
    try:
        header = json.loads(bytes(source.contents[8 : 8 + length]))
    except ValueError:
        return False
    return any(isinstance(entry, dict) and "data_offsets" in entry for entry in header.values())
