"""Object code into this process: bundles of objects, and linking them.

Every linked bundle is a world of its own, so two models may define the same symbol. Undefined symbols are resolved from
the `imports` given and then from the process (libc and libm). `loader.py` does the work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tilewright.errors import ArtifactError
from tilewright.runtime.loader import LoadedCode, load_objects
from tilewright.runtime.processor import host_architecture


class Linked:
    """Objects in memory; `addresses` maps their exported symbols. It must outlive every use of an address from it."""

    def __init__(self, code: LoadedCode, exports: Iterable[str]) -> None:
        self._code = code
        self.addresses: dict[str, int] = {}
        for name in exports:
            address = self.find(name)
            if address is None:
                raise ArtifactError(f"the object code does not link in this process: nothing defines {name!r}")
            self.addresses[name] = address

    def find(self, symbol: str) -> int | None:
        """The address of any public symbol of the objects, or None when they define none of that name."""
        return self._code.symbols.get(symbol)


def link(object_code: bytes, exports: Iterable[str], imports: Mapping[str, int] | None = None) -> Linked:
    """Link one ELF object, or several bundled by `bundle_objects`; the objects define all of `exports`.

    Raises `ArtifactError` when it does not link here.
    """
    return Linked(load_objects(split_objects(object_code), imports or {}, host_architecture()), exports)


_BUNDLE = b"TWOBJS\x00\x01"


def bundle_objects(objects: Sequence[bytes]) -> bytes:
    """Several objects that refer to each other as one string of bytes: a mark, then each with its length before it.

    A single object is its own bundle; one that is a bundle itself is put into another, so that splitting finds it.
    """
    if len(objects) == 1 and not objects[0].startswith(_BUNDLE):
        return objects[0]
    return b"".join([_BUNDLE, *(part for code in objects for part in (len(code).to_bytes(8, "little"), code))])


def split_objects(code: bytes) -> list[bytes]:
    """The objects of a bundle; a single object is its own bundle. Raises `ArtifactError` when one is cut short."""
    if not code.startswith(_BUNDLE):
        return [code]
    objects, position = [], len(_BUNDLE)
    while position < len(code):
        length = int.from_bytes(code[position : position + 8], "little")
        objects.append(code[position + 8 : position + 8 + length])
        position += 8 + length
    if position != len(code):
        raise ArtifactError("the object code is damaged: it ends within an object. Compile the model again")
    return objects
