"""`relay.backend.Executor` and `Runtime` of v0.9 and later: what `relay.build` compiles for, with options.

What is compiled runs on this package's own executors and runtime whatever they say: they are read and checked.
`link-params` is how it is anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from tilewright.errors import InputError

_NUMBER, _TEXT = "IntImm", "runtime.String"


class _Choice:
    """One of several names, with options of the types that it has."""

    known: ClassVar[Mapping[str, Mapping[str, str]]]
    defaults: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, name: str, options: Mapping[str, Any] | None = None) -> None:
        kinds = self.list_registered_options(name)
        what = type(self).__name__
        for key, value in (options or {}).items():
            if key not in kinds:
                raise InputError(f'Attribute "{key}" is not available on this {what}')
            kind = _TEXT if isinstance(value, str) else _NUMBER
            if kind != kinds[key]:
                raise InputError(f'Attribute "{key}" should have type "{kinds[key]}" but instead found "{kind}"')
        self.name = str(name)
        self.attrs = {key: value for key, value in self.defaults.items() if key in kinds} | dict(options or {})

    @classmethod
    def list_registered(cls) -> list[str]:
        """The names there are."""
        return list(cls.known)

    @classmethod
    def list_registered_options(cls, name: Any) -> dict[str, str]:
        """The options of one name, with their types. Raises `InputError` for one that is not there."""
        if str(name) not in cls.known:
            raise InputError(f'{cls.__name__} "{name}" is not defined; there are {", ".join(cls.known)}')
        return dict(cls.known[str(name)])

    def __contains__(self, name: str) -> bool:
        return name in self.attrs

    def __getitem__(self, name: str) -> Any:
        return self.attrs[name]

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(self.name)


class Executor(_Choice):
    """`Executor("graph", {"link-params": True})`."""

    known: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "graph": {"link-params": _NUMBER},
        "aot": {
            "link-params": _NUMBER,
            "unpacked-api": _NUMBER,
            "interface-api": _TEXT,
            "workspace-byte-alignment": _NUMBER,
            "constant-byte-alignment": _NUMBER,
        },
        "vm": {"link-params": _NUMBER},
    }
    defaults: ClassVar[Mapping[str, Any]] = {"link-params": False}


class Runtime(_Choice):
    """`Runtime("cpp", {"system-lib": True})`."""

    known: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "cpp": {"system-lib": _NUMBER, "system-lib-prefix": _TEXT},
        "crt": {"system-lib": _NUMBER},
    }
