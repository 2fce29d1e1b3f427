"""Waiting without end for an event that the handler of a signal sets."""

from __future__ import annotations

import threading


def wait_for(stopped: threading.Event) -> None:
    """Wait until it is set, but look now and then: a signal just before an endless wait begins would not end it."""
    while not stopped.wait(1.0):
        pass
