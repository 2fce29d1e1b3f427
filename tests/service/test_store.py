"""Jobs are claimed by one worker, survive workers that die, and end once."""

from __future__ import annotations

import threading
import time
from collections import Counter

import pytest

pytest.importorskip("sqlalchemy", reason="the extra [serve] is not installed")
pytest.importorskip("alembic", reason="the extra [serve] is not installed")

import contextlib

from tilewright.service.jobs.store import (
    COMPLETED,
    FAILED,
    INPROGRESS,
    STARTING,
    STOPPED,
    STOPPING,
    NameTaken,
    Page,
    Store,
    TooManyJobs,
)

LONG, OVER = 60.0, -1.0


@pytest.fixture
def store(database: str) -> Store:
    return Store(database)


def _status(store: Store, name: str = "a") -> str:
    job = store.find("ada", name)
    assert job is not None
    return job.status


def test_of_many_workers_one_gets_each_job(store: Store) -> None:
    names = [f"job-{number}" for number in range(40)]
    for name in names:
        store.create("ada", name, {}, {}, 100)
    claimed: Counter[str] = Counter()

    def work() -> None:
        while (job := store.claim(LONG, 3)) is not None:
            claimed[job.name] += 1
            assert store.end(job, COMPLETED)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert claimed == dict.fromkeys(names, 1)
    assert {_status(store, name) for name in names} == {COMPLETED}


def test_a_job_whose_worker_died_is_claimed_again_and_ends_once(store: Store) -> None:
    store.create("ada", "a", {}, {}, 1)
    dead = store.claim(OVER, 3)
    again = store.claim(LONG, 3)
    assert dead is not None and again is not None and again.attempts == 2
    assert store.renew(dead, LONG) == "" and not store.end(dead, FAILED, "the dead one")
    assert store.end(again, COMPLETED, result={"location": "x"}) and not store.end(again, FAILED)
    assert _status(store) == COMPLETED


def test_a_job_that_kills_its_workers_fails(store: Store) -> None:
    store.create("ada", "a", {}, {}, 1)
    assert all(store.claim(OVER, 3) for _ in range(3))
    assert store.claim(LONG, 3) is None
    job = store.find("ada", "a")
    assert job is not None and job.status == FAILED and job.reason == "3 workers ended while they ran this job"


def test_stops(store: Store) -> None:
    for name in ("waiting", "running", "abandoned"):
        store.create("ada", name, {}, {}, 3)
    assert not store.stop("eve", "waiting")
    first, second = store.claim(LONG, 3), store.claim(OVER, 3)
    assert first is not None and second is not None
    for name in ("waiting", "running", "abandoned"):
        assert store.stop("ada", name)
    assert store.end(first, COMPLETED) and _status(store, first.name) == STOPPED
    assert store.claim(LONG, 3) is None
    assert {_status(store, name) for name in ("waiting", "running", "abandoned")} == {STOPPED}


def test_a_stop_whose_worker_is_dead_ends_before_its_lease(store: Store) -> None:
    store.create("ada", "a", {}, {}, 1)
    assert store.claim(LONG, 3) is not None
    store.stop("ada", "a")
    start = time.monotonic()
    while _status(store) == STOPPING:
        time.sleep(0.05)
    assert _status(store) == STOPPED and time.monotonic() - start < LONG / 2


def test_a_job_that_is_released_waits_again_as_if_it_never_ran(store: Store) -> None:
    store.create("ada", "a", {}, {}, 1)
    assert not store.create("ada", "b", {}, {}, 2).attempts
    for _ in range(3):
        job = store.claim(LONG, 2)
        assert job is not None and job.attempts == 1
        store.release(job)
        assert _status(store) == STARTING and not store.end(job, FAILED)
    job = store.claim(LONG, 2)
    assert job is not None
    store.stop("ada", job.name)
    store.release(job)
    assert _status(store, job.name) == STOPPED


def test_what_a_worker_recorded_is_found_by_the_next(store: Store) -> None:
    store.create("ada", "a", {}, {}, 1, kind="verify")
    dead = store.claim(LONG, 3)
    assert dead is not None and store.record(dead, OVER, {"digest": "x"})
    again = store.claim(LONG, 3)
    assert again is not None and again.result == {"digest": "x"} and again.kind == "verify"
    assert not store.record(dead, LONG, {"digest": "y"})
    assert store.renew(again, LONG, {"stage": "pack", "progress": 0.5, "log": "…"}) == INPROGRESS
    job = store.find("ada", "a")
    assert job is not None and (job.stage, job.progress, job.log, job.result) == ("pack", 0.5, "…", {"digest": "x"})


def test_owners_leave_workers_to_others(store: Store) -> None:
    for owner, name in (("ada", "a"), ("ada", "b"), ("bob", "c")):
        store.create(owner, name, {}, {}, 9)
    claimed = [store.claim(LONG, 3, most_of_owner=1) for _ in range(3)]
    assert [job and job.name for job in claimed] == ["a", "c", None]


def test_limits_hold_for_requests_at_the_same_time(store: Store) -> None:
    made: list[str] = []

    def create(number: int) -> None:
        with contextlib.suppress(TooManyJobs):
            made.append(store.create("ada", f"j{number}", {}, {}, 3).name)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 3


def test_owners_with_fewer_jobs_running_come_first(store: Store) -> None:
    for number in range(3):
        store.create("ada", f"a{number}", {}, {}, 9)
    store.create("bob", "b", {}, {}, 9)
    order = [job.owner for job in iter(lambda: store.claim(LONG, 3), None)]
    assert order == ["ada", "bob", "ada", "ada"]


def test_names_limits_and_deletion(store: Store) -> None:
    store.create("ada", "a", {}, {}, 1)
    with pytest.raises(NameTaken):
        store.create("ada", "a", {}, {}, 9)
    with pytest.raises(TooManyJobs):
        store.create("ada", "b", {}, {}, 1)
    store.create("bob", "a", {}, {}, 1)
    assert store.delete("ada", "a") is False and store.delete("ada", "none") is None
    store.stop("ada", "a")
    assert store.delete("ada", "a") is True and store.find("ada", "a") is None


@pytest.mark.parametrize("descending", [False, True])
def test_pages_go_through_all_jobs_once(store: Store, descending: bool) -> None:
    for number in range(7):
        store.create("ada", f"j{number}", {}, {}, 9)
    found: list[str] = []
    after = None
    while jobs := store.page("ada", Page((), "status", descending, 2, after)):
        found += [job.name for job in jobs]
        after = (jobs[-1].status, jobs[-1].id)
    assert sorted(found) == [f"j{number}" for number in range(7)]


def test_a_signature_counts_once_until_it_is_too_old(store: Store) -> None:
    assert store.first_time("s", time.time() + 60) and not store.first_time("s", time.time() + 60)
    assert store.first_time("t", time.time() - 1) and store.first_time("t", time.time() + 60)
