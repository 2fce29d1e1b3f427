"""The ranks of a training by the name of their engine."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.errors import InputError
from tilewright.training.distribute.gloo import GlooRanks
from tilewright.training.distribute.mpi import MpiRanks
from tilewright.training.distribute.ranks import TIMEOUT, Alone, Ranks


def connect_ranks(engine: str | Ranks | None, timeout: float = TIMEOUT) -> Ranks:
    """The ranks by an engine: "gloo", "mpi", None for this process alone, or an object of one's own.

    Raises `InputError` for another name, `EnvironmentError_` where the engine is not installed or did not start this
    process.
    """
    if engine is None:
        return Alone()
    if isinstance(engine, str):
        engines: dict[str, Callable[[float], Ranks]] = {"gloo": GlooRanks, "mpi": MpiRanks}
        if engine not in engines:
            raise InputError(f"ranks={engine!r}: the engines are {', '.join(engines)}; None is one rank alone")
        return engines[engine](timeout)
    if not isinstance(engine, Ranks):
        raise InputError(f"ranks={engine!r} has no send, receive, gather and broadcast")
    return engine
