"""Pictures of schedules: well-formed, with the names, extents, bytes and counts that the schedule has."""

import re
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.te.random_schedule import random_graph, random_schedule
from tilewright import te, tir
from tilewright.errors import ScheduleError
from tilewright.te.access_counts import access_counts

SVG = "{http://www.w3.org/2000/svg}"


def lines(picture):
    """The lines of text of a picture that is well-formed XML, whole ones in place of those cut short."""
    found = []
    for text in ElementTree.fromstring(picture).iter(f"{SVG}text"):
        title = text.find(f"{SVG}title")
        found.append(title.text if title is not None else text.text)
    return found


def product():
    """A product of 32 by 64 by 16, in tiles of 8 by 8 summed up in a local buffer, of an inlined sum."""
    a, b = te.placeholder((32, 16), name="A"), te.placeholder((16, 64), name="B")
    more = te.compute((32, 16), lambda i, j: a[i, j] + 1.0, name="more")
    k = te.reduce_axis((0, 16), name="k")
    c = te.compute((32, 64), lambda i, j: te.sum(more[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c)
    s[more].compute_inline()
    local = s.cache_write(c, "local")
    outer, _, _, lane = s[c].tile(*s[c].op.axis, x_factor=8, y_factor=8)
    s[c].parallel(outer)
    s[c].vectorize(lane)
    s[local].compute_at(s[c], s[c].leaf_iter_vars[1])
    s[local].unroll(s[local].op.axis[0])
    return s, [a, b, c]


def row(picture, name):
    """The cells of a buffer's row."""
    return next(line.split() for line in lines(picture) if line.startswith((f"{name} float32[", f"{name}  ")))


def test_the_stages_with_their_positions_and_loops():
    text = lines(te.schedule_picture(*product()))
    assert "A: given" in text
    assert "more: inlined in C.local" in text
    position = next(n for n, line in enumerate(text) if line.startswith("C: at the root  (test_picture.py:"))
    assert text[position + 1] == "loops i_outer 4 parallel > j_outer 8 > i_inner 8 > j_inner 8 vectorized"
    position = next(n for n, line in enumerate(text) if line.startswith("C.local: at j_outer of C  (test_picture.py:"))
    assert text[position + 1] == "loops i.c 8 unrolled > j.c 8 > k 16"


def test_many_loops_go_on_several_lines():
    sizes = (2,) * 20
    a = te.placeholder(sizes, name="A")
    b = te.compute(sizes, lambda *axes: a(*axes) + 1.0, name="B")
    picture = te.schedule_picture(te.create_schedule(b), [a, b])
    text = lines(picture)
    position = next(n for n, line in enumerate(text) if line.startswith("loops "))
    assert text[position].endswith(">") and len(text[position]) <= 140
    told = " ".join(text[position : position + 2])
    assert told == "loops " + " > ".join(f"i{n} {size}" for n, size in enumerate(sizes))


def test_the_loops_are_boxes_within_boxes():
    picture = ElementTree.fromstring(te.schedule_picture(*product()))
    text = lines(te.schedule_picture(*product()))
    assert "for i_outer in parallel(4):" in text and "for k in range(16):" in text
    drawn = [r for r in picture.iter(f"{SVG}rect") if r.get("rx")]
    boxes = [{key: float(r.get(key)) for key in ("x", "y", "width", "height")} for r in drawn]
    assert len(boxes) == sum(line.endswith(":") for line in text)
    whole = boxes[0]
    for box in boxes[1:]:
        assert whole["x"] < box["x"] and box["x"] + box["width"] < whole["x"] + whole["width"]
        assert whole["y"] < box["y"] and box["y"] + box["height"] <= whole["y"] + whole["height"]


def test_the_bytes_and_counts_of_each_buffer():
    picture = te.schedule_picture(*product())
    steps = 32 * 64 * 16
    # buffer, type, scope, bytes, copies, reads, writes, reads and writes per element
    assert row(picture, "A")[3:] == ["global", "2,048", "1", f"{steps:,}", "0", "64", "0"]
    assert row(picture, "B")[3:] == ["global", "4,096", "1", f"{steps:,}", "0", "32", "0"]
    assert row(picture, "C")[3:] == ["global", "8,192", "1", "0", "2,048", "0", "1"]
    both = f"{steps + 2048:,}"
    assert row(picture, "C_local")[3:] == ["local", "256", "32", both, both, "17", "17"]


def test_accesses_under_conditions_are_bounds():
    a = te.placeholder((10,), name="A")
    b = te.compute((12,), lambda i: tir.if_then_else(i < 10, a[i], 0.0), name="B")
    picture = te.schedule_picture(te.create_schedule(b), [a, b])
    assert row(picture, "A")[2:] == ["global", "40", "1", "<=", "12", "0", "<=", "1.2", "0"]
    assert row(picture, "B")[2:] == ["global", "48", "1", "0", "12", "0", "1"]


def test_gaps_between_rows_take_memory():
    a = te.placeholder((4, 8), name="A")
    b = te.compute((4, 8), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((4, 8), lambda i, j: b[i, j] * 2.0, name="C")
    s = te.create_schedule(c)
    s[b].storage_align(b.op.axis[0], 16, 0)
    assert row(te.schedule_picture(s, [a, c]), "B")[4] == str((3 * 16 + 8) * 4)


def test_unknown_sizes_stand_by_their_names():
    n = te.size_var("n")
    a = te.placeholder((n, 4), name="A")
    b = te.compute((n, 4, 3), lambda i, j, k: a[i, j] * 2.0, name="B")
    picture = te.schedule_picture(te.create_schedule(b), [a, b])
    assert "loops i n > j 4 > k 3" in lines(picture)
    line = next(x for x in lines(picture) if x.startswith("A "))
    assert "16 * n" in line and "12 * n" in line and line.split()[-2:] == ["3", "0"]


def test_an_address_that_a_call_gets_is_marked():
    a = te.placeholder((16,), name="A")

    def copy(ins, outs):
        target, size = outs[0].access_ptr("w"), tir.const(64, "int64")
        return tir.call_extern("handle", "memcpy", target, ins[0].access_ptr("r"), size)

    b = te.extern((16,), [a], copy, name="B")
    func = te.schedule_to_tir(te.create_schedule(b), [a, b])
    assert [(use.buffer.name, use.escapes, str(use.reads)) for use in access_counts(func)] == [
        ("A", True, "0"),
        ("B", True, "0"),
    ]


def test_names_are_escaped_and_a_page_holds_all():
    a = te.placeholder((4,), name="A<&>")
    b = te.compute((4,), lambda i: a[i] + 1.0, name='B"')
    picture = te.schedule_picture(te.create_schedule(b), [a, b])
    assert "A<&>: given" in lines(picture)
    page = te.picture_page({"one <b>": picture, "two": picture}, "a & b")
    root = ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>\n"))
    assert [h.text for h in root.iter("h2")] == ["one <b>", "two"]
    assert len(list(root.iter(f"{SVG}svg"))) == 2
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "") and "src=" not in page


def test_a_schedule_that_cannot_be_lowered_has_no_picture():
    s, (a, b, _) = product()
    with pytest.raises(ScheduleError, match="the output C is not among the arguments"):
        te.schedule_picture(s, [a, b])


def test_the_picture_is_as_recorded(check_golden):
    picture = te.schedule_picture(*product(), name="product")
    check_golden("schedule_picture.svg", re.sub(r"test_picture\.py:\d+", "test_picture.py:LINE", picture))


@settings(max_examples=60, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(st.data())
def test_any_schedule_can_be_drawn(data):
    source, output = random_graph(data.draw)
    schedule = random_schedule(data.draw, source, output)
    args = [source, *output.op.outputs]
    text = lines(te.schedule_picture(schedule, args))
    for stage in schedule.stages:
        assert any(line.startswith(f"{stage.name}: ") for line in text), stage
    for use in access_counts(te.schedule_to_tir(schedule, args)):
        written = sum(use.writes.terms.values())
        assert use.buffer.name == source.name or written or use.escapes, use
