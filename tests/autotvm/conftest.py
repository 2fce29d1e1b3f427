"""Tuning over a fleet needs one: the fixtures of the tests of `rpc`."""

from __future__ import annotations

from tests.rpc.conftest import fleet_of, library, start

__all__ = ["fleet_of", "library", "start"]
