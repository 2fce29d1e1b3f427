"""Stage timers: nesting, counts, errors inside a span, and the two reports."""

from __future__ import annotations

import json
import threading

import pytest

from tilewright.support import trace


def test_without_a_collection_nothing_is_recorded() -> None:
    with trace.span("alone"):
        trace.count("nodes")
    with trace.collect() as report:
        pass
    assert report.rows() == [] and report.counters == {}


def test_rows_are_nested_in_order_and_added_up() -> None:
    with trace.collect() as report:
        with trace.span("frontend"):
            pass
        with trace.span("kernels"):
            for _ in range(3):
                with trace.span("lower"):
                    pass
            with trace.span("emit"):
                pass
        trace.count("tasks", 2)
        trace.count("tasks")
    assert [(row.path, row.count) for row in report.rows()] == [
        (("frontend",), 1),
        (("kernels",), 1),
        (("kernels", "lower"), 3),
        (("kernels", "emit"), 1),
    ]
    inner = sum(row.seconds for row in report.rows() if len(row.path) == 2)
    assert 0 <= inner <= report.rows()[1].seconds <= report.seconds
    assert report.counters == {"tasks": 3}
    lines = report.table().splitlines()
    assert lines[2].startswith("  lower") and lines[2].endswith("x3") and lines[-2].startswith("total")


def test_a_span_that_raises_is_recorded_and_closed() -> None:
    with trace.collect() as report:
        with pytest.raises(ValueError), trace.span("bad"):
            raise ValueError
        with trace.span("next"):
            pass
    assert [row.path for row in report.rows()] == [("bad",), ("next",)]


def test_other_threads_do_not_mix_in() -> None:
    def work() -> None:
        with trace.span("elsewhere"):
            pass

    with trace.collect() as report:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert report.spans == []


def test_the_chrome_trace_has_an_event_for_each_span() -> None:
    with trace.collect() as report, trace.span("outer"), trace.span("inner"):
        pass
    events = json.loads(report.chrome_trace())["traceEvents"]
    assert [event["name"] for event in events] == ["outer", "inner"]
    assert all(event["ph"] == "X" and event["dur"] >= 0 and event["ts"] >= 0 for event in events)


def test_stretches_timed_elsewhere() -> None:
    trace.record("lost", 1.0)
    with trace.collect() as report, trace.span("kernels"):
        trace.record("llvm (all processes)", 2.5)
    assert [(row.path, row.seconds) for row in report.rows()][1] == (("kernels", "llvm (all processes)"), 2.5)
