"""Jobs shared by devices: each counts once, whichever devices are lost, late, or done twice."""

from __future__ import annotations

import random
import threading

import pytest

from tilewright.autotvm.measure.jobs import Jobs


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_each_job_is_given_out_once_and_taken_until_all_are_done() -> None:
    jobs = Jobs("abc")
    attempts = [jobs.take("d") for _ in range(3)]
    assert [a.job for a in attempts if a] == list("abc") and jobs.take("d", 0) is None and not jobs.over
    assert all(jobs.done(a, a.job * 2) for a in attempts if a)
    assert jobs.over and jobs.values == {0: "aa", 1: "bb", 2: "cc"} and jobs.take("d") is None


def test_what_a_lost_device_had_is_given_to_the_next_and_at_last_given_up() -> None:
    jobs = Jobs("a", tries=2)
    for device, left in (("one", {}), ("two", {0: "silent two"})):
        attempt = jobs.take(device)
        assert attempt is not None
        jobs.lost(attempt, f"silent {device}")
        assert jobs.lost_for_good == left
    assert jobs.over and jobs.take("three") is None


def test_a_late_result_counts_if_it_is_the_first_and_a_double_one_does_not() -> None:
    jobs = Jobs("a")
    slow = jobs.take("slow")
    assert slow is not None
    jobs.lost(slow, "silent")
    quick = jobs.take("quick")
    assert quick is not None and jobs.done(slow, 1) and not jobs.done(quick, 2)
    assert jobs.values == {0: 1} and (jobs.lates, jobs.doubles) == (1, 1)


def test_a_late_result_of_a_job_that_was_given_up_is_still_taken() -> None:
    jobs = Jobs("a", tries=1)
    attempt = jobs.take("d")
    assert attempt is not None
    jobs.lost(attempt, "silent")
    assert jobs.over and jobs.done(attempt, 7) and jobs.values == {0: 7} and not jobs.lost_for_good and jobs.over


def test_who_has_nothing_to_do_gets_what_another_has_had_for_long() -> None:
    clock = Clock()
    jobs = Jobs("a", late_seconds=10.0, clock=clock)
    first = jobs.take("slow")
    clock.now = 9.0
    assert jobs.take("idle", 0) is None
    clock.now = 11.0
    assert jobs.take("slow", 0) is None
    second = jobs.take("idle", 0)
    assert first is not None and second is not None and second.number == first.number
    assert jobs.take("other", 0) is None  # two have it
    assert jobs.done(second, 1) and not jobs.done(first, 2)
    assert jobs.over and jobs.values == {0: 1} and jobs.doubles == 1


def test_nothing_is_given_out_once_they_are_closed() -> None:
    jobs = Jobs("ab")
    assert jobs.take("d") is not None
    jobs.close()
    assert jobs.take("d") is None and jobs.wait(0)


@pytest.mark.parametrize("seed", range(5))
def test_every_job_has_one_value_whatever_devices_do(seed: int) -> None:
    generator, jobs, counted = random.Random(seed), Jobs(range(60), tries=1000, late_seconds=0.0), []

    def device(name: str, luck: random.Random) -> None:
        while (attempt := jobs.take(name)) is not None:
            if luck.random() < 0.4:
                jobs.lost(attempt, "gone")
                if luck.random() < 0.5:
                    continue
            if jobs.done(attempt, attempt.job):
                counted.append(attempt.number)

    threads = [threading.Thread(target=device, args=(f"d{i}", random.Random(generator.random()))) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(counted) == list(range(60)) and jobs.values == {i: i for i in range(60)} and not jobs.lost_for_good
