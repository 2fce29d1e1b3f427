"""Programs that ask `tvm.arith` about systems of conditions, maps of iterators and regions."""

import tilewright.compat

tilewright.compat.install()

import tvm  # noqa: E402
from tvm import arith, te, tir  # noqa: E402


def test_equations_are_solved_over_the_integers():
    x, y = te.var("x"), te.var("y")
    solution = arith.solve_linear_equations([tir.EQ(x + y, 20), tir.EQ(x - y, 10)], [x, y])
    assert list(solution.dst.variables) == []
    assert int(solution.src_to_dst[x]) == 15 and int(solution.src_to_dst[y]) == 5
    nothing = arith.solve_linear_equations([tir.EQ(x + y, 0), tir.EQ(x - y, 0), tir.EQ(x, 5)], [x, y], {})
    assert len(nothing.dst.variables) == 0 and not nothing.dst.relations[0].value and not nothing.src_to_dst
    same = arith.solve_linear_equations([tir.EQ(x, 1)])
    assert same.src is same.dst and not same.dst_to_src


def test_inequalities_bound_their_variables():
    x, y = te.var("x"), te.var("y")
    ranges = {x: tvm.ir.Range(-100, 100), y: tvm.ir.Range(0, 10)}
    problem = [tir.LE(x + y, 20), tir.GE(x - y, 10)]
    solution = arith.solve_linear_inequalities(problem, [x, y], ranges)
    assert int(solution.ranges[y].min) == 0 and int(solution.ranges[y].extent) == 6
    assert tvm.ir.structural_equal(solution.ranges[x].min, y + 10) and int(solution.ranges[x].extent) == 11
    shifted = arith.solve_linear_inequalities(problem, [x, y], ranges, deskew_range=True)
    assert [int(span.min) for span in shifted.dst.ranges.values()] == [0, 0]
    none = arith.solve_linear_inequalities([x <= 1, x >= 3], [x])
    assert len(none.variables) == 0 and not none.relations[0].value


def test_maps_of_iterators():
    x, y = te.var("x"), te.var("y")
    domain = {x: tvm.ir.Range(0, 3), y: tvm.ir.Range(0, 4)}
    found = arith.detect_iter_map([y * 3 + x, 7], domain)
    assert len(found) == 2 and int(found[0].args[0].extent) == 12 and int(found[1].base) == 7
    assert len(arith.detect_iter_map([y * 4 + x], domain)) == 0
    (out,) = outputs = [te.var("out")]
    inverse = arith.inverse_affine_iter_map(arith.detect_iter_map([y * 3 + x], domain), outputs)
    assert tvm.arith.Analyzer().can_prove_equal(inverse[x], tir.floormod(out, 3))
    (outer, inner), _ = arith.subspace_divide([y * 3 + x], domain, [x])
    assert (int(outer.extent), int(inner.extent)) == (4, 3)


def test_regions_and_sets():
    i = te.var("i")
    region = [tvm.ir.Range.from_min_extent(i * 4, 4)]
    (found,) = arith.estimate_region_lower_bound(region, {i: tvm.ir.Range(0, 8)}, predicate=True)
    assert int(found.min_value) == 0 and int(found.max_value) == 31
    joined = arith.int_set.union_lower_bound([arith.IntervalSet(0, 4), arith.IntervalSet(5, 9)])
    assert int(joined.min_value) == 0 and int(joined.max_value) == 9
    assert tir.analysis.expr_deep_equal(tir.const(0), 0) and not tir.analysis.expr_deep_equal(i, 0)
