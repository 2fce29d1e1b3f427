"""Work in forked processes: results, order, exceptions, and a process that dies."""

from __future__ import annotations

import os
import signal

import pytest

from tilewright.errors import InternalError, UnsupportedError
from tilewright.support.processes import fork_map


def name(index: int) -> str:
    return f"item {index}"


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_every_item_comes_back_once_with_its_index(jobs: int) -> None:
    base = 100  # a closure is not pickled: the children inherit it
    assert sorted(fork_map(lambda i: base + i, range(7), jobs, name)) == [(i, 100 + i) for i in range(7)]


def test_one_job_works_in_this_process_and_in_the_given_order() -> None:
    assert list(fork_map(lambda i: os.getpid(), [3, 1, 2], 1, name)) == [(i, os.getpid()) for i in (3, 1, 2)]


def test_one_item_needs_no_process() -> None:
    assert list(fork_map(lambda i: os.getpid(), [0], 4, name)) == [(0, os.getpid())]
    assert list(fork_map(lambda i: i, [], 4, name)) == []


def test_several_jobs_work_elsewhere() -> None:
    assert os.getpid() not in {pid for _, pid in fork_map(lambda i: os.getpid(), range(4), 2, name)}


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_exception_arrives_as_it_was_raised(jobs: int) -> None:
    def work(index: int) -> int:
        if index == 2:
            raise UnsupportedError("the third item is beyond this version")
        return index

    with pytest.raises(UnsupportedError, match="the third item is beyond this version"):
        list(fork_map(work, range(4), jobs, name))


def test_a_process_that_dies_is_an_internal_error_naming_items() -> None:
    def work(index: int) -> int:
        if index == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return index

    with pytest.raises(InternalError, match=r"a compiling process died while these were being compiled: .*item 1"):
        list(fork_map(work, range(3), 2, name))


def test_the_next_work_is_not_hindered_by_a_failure() -> None:
    with pytest.raises(ZeroDivisionError):
        list(fork_map(lambda i: 1 // i, range(3), 2, name))
    assert dict(fork_map(lambda i: i * i, range(3), 2, name)) == {0: 0, 1: 1, 2: 4}
