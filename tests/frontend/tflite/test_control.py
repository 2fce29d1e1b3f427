"""Branches, loops and variables against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.frontend.tflite.builder import Graph, Op, T, build, check, opened, outputs_of
from tilewright.errors import UnsupportedError
from tilewright.frontend.tflite import converts, from_tflite, initial_states
from tilewright.relay import op

ADD, MUL, LESS = ("AddOptions", {}), ("MulOptions", {}), ("LessOptions", {})


def c(value: object, dtype: str = "float32") -> T:
    data = np.asarray(value, dtype)
    return T(data.shape, dtype, data)


def binary(name: str, options: tuple[str, dict[str, object]], value: object) -> Graph:
    return Graph([T((2, 3)), c(value), T((2, 3))], [0], [2], [Op(name, [0, 1], [2], options)])


def test_a_condition_chooses_a_branch() -> None:
    branch = Op("IF", [0, 1], [2], ("IfOptions", {"thenSubgraphIndex": 1, "elseSubgraphIndex": 2}))
    main = Graph([T((1,), "bool"), T((2, 3)), T((2, 3))], [0, 1], [2], [branch])
    model = build(main, binary("ADD", ADD, 1.5), binary("MUL", MUL, -2.0))
    executable = tw.compile(from_tflite(model)[0], cache=False)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for condition in (True, False):
        feeds = [np.array([condition]), x]
        found = executable.run({"t0": feeds[0], "t1": x})
        np.testing.assert_array_equal(np.asarray(found[0]), outputs_of(opened(model), feeds)[0])


def test_a_loop_runs_as_often_as_its_condition_says() -> None:
    loop = Op("WHILE", [0, 1], [2, 3], ("WhileOptions", {"condSubgraphIndex": 1, "bodySubgraphIndex": 2}))
    main = Graph([T((), "int32"), T((4,)), T((), "int32"), T((4,))], [0, 1], [2, 3], [loop])
    test = Graph([T((), "int32"), T((4,)), c(7, "int32"), T((), "bool")], [0, 1], [3], [Op("LESS", [0, 2], [3], LESS)])
    body = Graph(
        [T((), "int32"), T((4,)), c(1, "int32"), c(1.25), T((), "int32"), T((4,))],
        [0, 1],
        [4, 5],
        [Op("ADD", [0, 2], [4], ADD), Op("MUL", [1, 3], [5], MUL)],
    )
    check(build(main, test, body))


def test_a_loop_of_known_rounds_may_choose_by_its_counter() -> None:
    loop = Op("WHILE", [0, 1], [2, 3], ("WhileOptions", {"condSubgraphIndex": 1, "bodySubgraphIndex": 2}))
    main = Graph([c([0], "int32"), T((4,)), T((1,), "int32"), T((4,))], [1], [2, 3], [loop])
    test = Graph(
        [T((1,), "int32"), T((4,)), c(3, "int32"), T((1,), "bool")], [0, 1], [3], [Op("LESS", [0, 2], [3], LESS)]
    )
    cut = Op("SLICE", [1, 0, 3], [4], ("SliceOptions", {}))
    body = Graph(
        [T((1,), "int32"), T((4,)), c(1, "int32"), c([1], "int32"), T((1,)), T((1,), "int32"), T((4,))],
        [0, 1],
        [5, 6],
        [cut, Op("ADD", [0, 2], [5], ADD), Op("ADD", [1, 4], [6], ADD)],
    )
    model = build(main, test, body)
    assert len(from_tflite(model)[0].functions) == 1
    check(model)


def test_variables_are_inputs_and_outputs() -> None:
    handle = ("VarHandleOptions", {"sharedName": "total"})
    ops = [
        Op("CALL_ONCE", [], [], ("CallOnceOptions", {"initSubgraphIndex": 1})),
        Op("VAR_HANDLE", [], [1], handle),
        Op("READ_VARIABLE", [1], [2], ("ReadVariableOptions", {})),
        Op("ADD", [0, 2], [3], ADD),
        Op("ASSIGN_VARIABLE", [1, 3], [], ("AssignVariableOptions", {})),
    ]
    main = Graph([T((3,)), T((), "RESOURCE"), T((3,)), T((3,))], [0], [3], ops)
    first = [Op("VAR_HANDLE", [], [0], handle), Op("ASSIGN_VARIABLE", [0, 1], [], ("AssignVariableOptions", {}))]
    model = build(main, Graph([T((), "RESOURCE"), c([1.0, 2.0, 3.0])], [], [], first))
    module, specs = from_tflite(model)
    assert [spec.name for spec in specs] == ["t0", "total"]
    assert module["main"].attrs["output_names"] == ("t3", "total:next")
    states = initial_states(model)
    np.testing.assert_array_equal(states["total"], [1, 2, 3])
    executable = tw.compile(module, cache=False)
    result, after = executable.run({"t0": np.ones(3, np.float32), **states})
    np.testing.assert_array_equal(np.asarray(result), [2, 3, 4])
    np.testing.assert_array_equal(np.asarray(after), [2, 3, 4])


def test_what_is_missing_is_named_at_once() -> None:
    ops = [Op("custom:Alpha", [0], [1]), Op("custom:Alpha", [0], [2]), Op("LSH_PROJECTION", [0], [3])]
    with pytest.raises(UnsupportedError) as error:
        from_tflite(build(Graph([T((3,)), T((3,)), T((3,)), T((3,))], [0], [1, 2, 3], ops)))
    first, second = str(error.value).splitlines()[1:]
    assert "operator 0 Alpha ('t1') (the first of 2 such nodes)" in first
    assert "operator 2 LSH_PROJECTION ('t3')" in second


def test_a_custom_operator_is_registered() -> None:
    converts("Twice", custom=True)(lambda node: op.add(node[0], node[0]))
    model = build(Graph([T((3,)), T((3,))], [0], [1], [Op("custom:Twice", [0], [1])]))
    executable = tw.compile(from_tflite(model)[0], cache=False)
    np.testing.assert_array_equal(np.asarray(executable(np.arange(3, dtype=np.float32))), [0, 2, 4])
