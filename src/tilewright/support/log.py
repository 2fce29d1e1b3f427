"""The logger `tilewright`: stages of a compilation, the cache, threads and fallbacks, for programs that listen.

    logging.getLogger("tilewright").setLevel(logging.DEBUG)     # after logging.basicConfig() or with a handler of yours

It is silent by default. Where nobody has imported `logging` nobody can listen, and it is not imported either: loading
a saved model takes few milliseconds, of which that would be a good part.
"""

from __future__ import annotations

import sys
from typing import Any

#: Levels of the standard library's `logging`.
DEBUG, INFO = 10, 20


def log(level: int, message: str, *args: Any) -> None:
    """Log a message, %-formatted with `args` only where a handler wants it."""
    logging = sys.modules.get("logging")
    if logging is None:
        return
    logger = logging.getLogger("tilewright")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    logger.log(level, message, *args)
