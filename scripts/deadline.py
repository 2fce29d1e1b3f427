"""A plugin of pytest: tests that have not begun at the time in TEST_DEADLINE (seconds since 1970) are skipped."""

from __future__ import annotations

import os
import time

import pytest


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip the test if the time is used up; the summary lists it with this reason."""
    if time.time() > float(os.environ.get("TEST_DEADLINE", "inf")):
        pytest.skip("the time of scripts/test --quick is used up")
