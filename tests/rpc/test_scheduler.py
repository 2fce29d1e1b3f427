"""The tracker's decisions in a time of their own: shares, starvation, quotas, quarantine, and ten thousand devices."""

from __future__ import annotations

import heapq
import itertools
import random

import pytest

from tilewright.errors import InputError
from tilewright.rpc.messages import Refused
from tilewright.rpc.scheduler import AGEING_SECONDS, FAULTS_IN_A_ROW, QUARANTINE_SECONDS, Request, Scheduler


def fleet(count: int, keys=("pi",), **options) -> Scheduler:
    made = Scheduler(**options)
    for i in range(count):
        told = {"name": f"d{i}", "key": keys[i % len(keys)], "architecture": "aarch64", "memory": 1 << 30}
        made.add_device(f"d{i}", ("host", i), told)
    return made


def ids(prefix="lease"):
    count = itertools.count()
    return lambda: f"{prefix}{next(count)}"


def ask(scheduler, user, job, now=0.0, priority=0, seconds=10.0, **need):
    return scheduler.ask(Request(job, user, need or {"key": "pi"}, priority, seconds, now))


def simulate(scheduler, seconds_of, until, begun=0.0):
    """Grant and release in virtual time from `begun` to `until`; the leases in the order they were granted."""
    now, count, order, new = begun, itertools.count(), [], ids(f"{begun}-")
    running = [(begun, next(count), lease) for lease in scheduler.leases]
    while True:
        for lease in scheduler.assign(now, new):
            order.append(lease)
            heapq.heappush(running, (now + seconds_of(lease), next(count), lease.lease))
        if not running or running[0][0] > until:
            return order
        now, _, lease = heapq.heappop(running)
        scheduler.release(lease, now)


def test_two_users_get_equal_shares_however_many_requests_they_make():
    scheduler = fleet(4)
    for i in range(2000):
        ask(scheduler, "many", f"m{i}")
    for i in range(200):
        ask(scheduler, "few", f"f{i}")
    simulate(scheduler, lambda lease: 7.0, until=300.0)
    used = used_of(scheduler)
    assert used["few"] == pytest.approx(used["many"], rel=0.05)


def test_long_jobs_and_short_jobs_share_time_not_turns():
    scheduler = fleet(2)
    for i in range(1000):
        ask(scheduler, "long", f"l{i}")
        ask(scheduler, "short", f"s{i}")
    simulate(scheduler, lambda lease: 20.0 if lease.user == "long" else 2.0, until=600.0)
    used = used_of(scheduler)
    assert used["long"] == pytest.approx(used["short"], rel=0.1)


def used_of(scheduler):
    return {user.name: user.used_seconds for user in scheduler.users.values()}


def test_who_comes_first_and_takes_all_gives_it_back():
    """Devices held alone, before the other user asked, count as one's own; those held while it waits do not."""
    scheduler, new = fleet(4), ids()
    for i in range(200):
        ask(scheduler, "early", f"e{i}")
    assert len(scheduler.assign(0.0, new)) == 4
    for i in range(200):
        ask(scheduler, "late", f"l{i}", now=0.1)
    scheduler.assign(0.1, new)
    for lease in list(scheduler.leases.values()):
        scheduler.release(lease.lease, 1.0)
    order = simulate(scheduler, lambda lease: 1.0, until=21.0, begun=1.0)
    used = used_of(scheduler)
    assert used["early"] == pytest.approx(used["late"], abs=2.0) and len(order) >= 80
    assert [lease.user for lease in order[:4]].count("late") >= 3


@pytest.mark.parametrize("spread", [0.0, 0.9])
def test_equal_shares_are_exact_within_a_job_of_each_device(spread):
    """However long jobs are guessed to be, and however often each user asks: the debt of a guess does not grow."""
    scheduler, generator = fleet(4), random.Random(3)
    for user, count in (("a", 4000), ("b", 1500), ("c", 4000)):
        for i in range(count):
            ask(scheduler, user, f"{user}{i}", seconds={"a": 3600.0, "b": 1.0, "c": 30.0}[user])
    mean = {"a": 1.0, "b": 3.0, "c": 10.0}
    simulate(scheduler, lambda lease: mean[lease.user] * generator.uniform(1 - spread, 1 + spread), until=3000.0)
    shares = used_of(scheduler)
    assert max(shares.values()) - min(shares.values()) < 4 * 10.0 * (1 + spread)
    assert sum(shares.values()) > 0.99 * 4 * 3000.0


def test_a_request_that_nobody_can_serve_lends_newcomers_nothing():
    scheduler = fleet(1)
    ask(scheduler, "stuck", "s", key="none such")
    for i in range(100):
        ask(scheduler, "here", f"h{i}")
    simulate(scheduler, lambda lease: 10.0, until=500.0)
    for i in range(100):
        ask(scheduler, "new", f"n{i}", now=500.0)
    before = scheduler.users["here"].used_seconds
    simulate(scheduler, lambda lease: 10.0, until=700.0, begun=500.0)
    assert scheduler.users["here"].used_seconds - before == pytest.approx(scheduler.users["new"].used_seconds, abs=20.0)


def test_a_step_of_priority_doubles_a_share_and_starves_nobody():
    scheduler = fleet(2)
    for i in range(1000):
        ask(scheduler, "high", f"h{i}", priority=1)
        ask(scheduler, "low", f"l{i}")
    simulate(scheduler, lambda lease: 5.0, until=900.0)
    used = used_of(scheduler)
    assert used["high"] / used["low"] == pytest.approx(2.0, rel=0.1)


def test_a_request_of_low_priority_ages_past_later_ones_of_the_same_user():
    scheduler = fleet(1)
    ask(scheduler, "anna", "old", now=0.0)
    ask(scheduler, "anna", "soon", now=AGEING_SECONDS * 0.5, priority=1)
    ask(scheduler, "anna", "late", now=AGEING_SECONDS * 1.5, priority=1)
    order = [lease.job for lease in simulate(scheduler, lambda lease: 1.0, until=1e9)]
    assert order == ["soon", "old", "late"]


def test_a_user_who_was_away_has_saved_nothing_up():
    scheduler = fleet(1)
    for i in range(100):
        ask(scheduler, "here", f"h{i}")
    ask(scheduler, "back", "b-first")
    simulate(scheduler, lambda lease: 10.0, until=500.0)
    for i in range(100):
        ask(scheduler, "back", f"b{i}", now=500.0)
    granted = []
    now, new = 500.0, ids()
    for _ in range(20):
        for lease in list(scheduler.leases.values()):
            scheduler.release(lease.lease, now)
        granted += [lease.user for lease in scheduler.assign(now, lambda: f"again-{new()}")]
        now += 10.0
    assert 8 <= granted.count("back") <= 12


def test_a_quota_bounds_what_one_user_holds():
    scheduler = fleet(5, quota=2, quotas={"boss": 4})
    for user in ("anna", "boss"):
        for i in range(9):
            ask(scheduler, user, f"{user}{i}")
    held = [lease.user for lease in scheduler.assign(0.0, ids())]
    assert held.count("anna") == 2 and held.count("boss") == 3


def test_a_device_is_chosen_by_what_it_can_do():
    scheduler = fleet(0)
    small = {"key": "pi", "architecture": "aarch64", "features": ["neon"], "memory": 1 << 30, "processors": 4}
    scheduler.add_device("small", ("h", 1), {**small, "name": "small"})
    large = {**small, "features": ["neon", "dotprod"], "memory": 8 << 30, "name": "large"}
    scheduler.add_device("large", ("h", 2), large)
    ask(scheduler, "anna", "j1", features=["dotprod"])
    ask(scheduler, "anna", "j2", memory=2 << 30)
    ask(scheduler, "anna", "j3", name="small")
    assert {lease.job: lease.device for lease in scheduler.assign(0.0, ids())} == {"j1": "large", "j3": "small"}
    assert not scheduler.fitting_devices({"architecture": "riscv64"})


def test_asking_twice_for_one_job_gives_one_lease():
    scheduler = fleet(2)
    ask(scheduler, "anna", "job")
    ask(scheduler, "anna", "job")
    (lease,) = scheduler.assign(0.0, ids())
    assert ask(scheduler, "anna", "job") == lease
    with pytest.raises(Refused, match="another user's"):
        ask(scheduler, "bert", "job")
    scheduler.release(lease.lease, 1.0)
    with pytest.raises(Refused, match="is over"):
        ask(scheduler, "anna", "job")


def test_a_lease_that_nobody_renews_frees_its_device():
    scheduler = fleet(1)
    ask(scheduler, "anna", "a")
    (lease,) = scheduler.assign(0.0, ids())
    scheduler.renew(lease.lease, 8.0)
    assert not scheduler.expire(15.0)
    assert scheduler.expire(19.0) == [scheduler_lease(lease, 8.0)]
    with pytest.raises(Refused):
        scheduler.renew(lease.lease, 19.0)
    ask(scheduler, "bert", "b", now=19.0)
    assert [one.user for one in scheduler.assign(19.0, ids())] == ["bert"]


def scheduler_lease(lease, renewed):
    return type(lease)(**{**lease.__dict__, "until": renewed + lease.seconds})


def test_a_lost_device_ends_its_lease_and_comes_back_free():
    scheduler = fleet(1)
    ask(scheduler, "anna", "a")
    (lease,) = scheduler.assign(0.0, ids())
    assert scheduler.lose_device("d0", 1.0) == lease and not scheduler.leases
    ask(scheduler, "anna", "b", now=2.0)
    assert not scheduler.assign(2.0, ids())
    scheduler.add_device("d0", ("host", 9), {"key": "pi", "name": "d0"})
    assert scheduler.assign(3.0, lambda: "again")[0].job == "b"


def test_a_device_that_is_away_is_given_out_when_it_is_back():
    scheduler = fleet(2)
    ask(scheduler, "anna", "a", name="d0")
    (lease,) = scheduler.assign(0.0, ids())
    scheduler.miss_device("d0")
    assert scheduler.devices["d0"].state(0.0) == "away"
    scheduler.release(lease.lease, 1.0)
    ask(scheduler, "anna", "b", now=1.0, name="d0")
    scheduler.drain("d0", False)
    assert not scheduler.assign(1.0, ids())
    scheduler.add_device("d0", ("host", 9), {"key": "pi", "name": "d0"})
    assert [one.job for one in scheduler.assign(2.0, lambda: "again")] == ["b"]


def test_faults_in_a_row_set_a_device_aside_longer_each_time():
    scheduler, now, new = fleet(1), 0.0, ids()
    for wait in (QUARANTINE_SECONDS[0], QUARANTINE_SECONDS[0] * 2):
        for i in range(FAULTS_IN_A_ROW):
            ask(scheduler, "anna", f"{now}-{i}", now=now)
            (lease,) = scheduler.assign(now, new)
            scheduler.release(lease.lease, now, "it crashed")
        assert scheduler.devices["d0"].state(now) == "quarantined"
        scheduler.expire(now + wait - 1)
        assert scheduler.devices["d0"].state(now + wait - 1) == "quarantined"
        now += wait
        scheduler.expire(now)
        assert scheduler.devices["d0"].state(now) == "free"


def test_a_drained_device_finishes_and_is_given_out_no_more():
    scheduler = fleet(1)
    ask(scheduler, "anna", "a")
    (lease,) = scheduler.assign(0.0, ids())
    scheduler.drain("d0", True)
    scheduler.release(lease.lease, 1.0)
    ask(scheduler, "anna", "b", now=1.0)
    assert not scheduler.assign(1.0, ids())
    scheduler.drain("d0", False)
    assert len(scheduler.assign(2.0, lambda: "again")) == 1
    with pytest.raises(InputError, match="there is no device"):
        scheduler.drain("nobody", True)


@pytest.mark.parametrize("need, said", [({"colour": "red"}, "not chosen by"), ({"memory": "2G"}, "cannot be '2G'")])
def test_a_need_that_makes_no_sense_is_refused(need, said):
    with pytest.raises(InputError, match=said):
        ask(fleet(1), "anna", "a", **need)


@pytest.mark.long
def test_ten_thousand_devices_and_a_hundred_tuners():
    """Everybody is served alike, nobody waits for ever, and devices that are wanted do not idle."""
    generator = random.Random(1)
    scheduler = fleet(10_000, keys=("pi", "jetson", "x86"))
    left = {f"u{i}": itertools.count() for i in range(100)}

    def want(user, count, now):
        for _ in range(count):
            ask(scheduler, user, f"{user}-{next(left[user])}", now, 0, 30.0,
                key=("pi", "jetson", "x86")[generator.randrange(3)])  # fmt: skip

    for i, user in enumerate(left):
        want(user, 2000 if i < 5 else 300, 0.0)
    now, running, count, new, idle, waited = 0.0, [], itertools.count(), ids(), 0.0, []
    while len(waited) < 25_000:
        for lease in scheduler.assign(now, new):
            waited.append(now)
            heapq.heappush(running, (now + generator.uniform(5, 25), next(count), lease.lease, lease.user))
        before = now
        now, _, lease, user = heapq.heappop(running)
        idle += (now - before) * (10_000 - len(running) - 1)
        scheduler.release(lease, now)
        want(user, 1, now)
    assert idle / (now * 10_000) < 0.05
    # what is still running is not counted yet
    begun = {name: user.used_seconds + user.holds * 10.0 for name, user in scheduler.users.items()}
    shares = sorted(begun.values())
    assert shares[0] > 0.9 * shares[-1]
    assert all(user.holds for user in scheduler.users.values())
