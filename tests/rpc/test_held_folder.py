"""A folder of one server or tracker at a time."""

from __future__ import annotations

import os

import pytest

from tilewright.errors import EnvironmentError_, InputError
from tilewright.rpc.held_folder import HeldFolder


def test_second_holder_is_refused_until_the_first_closes(tmp_path):
    first = HeldFolder(tmp_path / "state")
    with pytest.raises(InputError, match="used by another server"):
        HeldFolder(tmp_path / "state")
    first.close()
    first.close()
    HeldFolder(tmp_path / "state").close()


def test_close_releases_a_lock_that_a_starting_process_shares(tmp_path):
    # a process between fork and exec has a copy of the descriptor, and with it the lock
    held = HeldFolder(tmp_path)
    copy = os.dup(held._file.fileno())
    held.close()
    try:
        HeldFolder(tmp_path).close()
    finally:
        os.close(copy)


def test_folder_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentError_, match="cannot use the folder"):
        HeldFolder(tmp_path / "file" / "state")
