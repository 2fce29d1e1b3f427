"""Stand-ins for classic names that programs may import and not use."""

from __future__ import annotations

from typing import Any

from tilewright.errors import UnsupportedError


class Refused:
    """A name that is there, and raises `UnsupportedError` with what to use instead when it is called or looked into."""

    def __init__(self, name: str, advice: str) -> None:
        self.__name__ = name
        self.__advice = advice

    def _refuse(self) -> UnsupportedError:
        return UnsupportedError(f"{self.__name__} is not part of tilewright.compat; {self.__advice}")

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise self._refuse()

    def __mro_entries__(self, _bases: tuple[Any, ...]) -> tuple[type, ...]:
        raise self._refuse()

    def __enter__(self) -> Any:
        raise self._refuse()

    def __exit__(self, *_: object) -> None:
        """Never entered."""

    def __getitem__(self, _key: Any) -> Any:
        raise self._refuse()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what Python itself asks of any object
            raise AttributeError(name)
        raise self._refuse()

    def __repr__(self) -> str:
        return f"<{self.__name__}, which is not part of tilewright.compat>"
