"""The text of each representation: graph, schedule, loop IR after every pass, LLVM IR, execution plan, bytecode.

C and the languages of GPUs have theirs in tests/codegen/source. `--accept` takes the texts of a run as the golden ones.
"""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.golden import CheckGolden, compare_or_accept
from tests.onnx_models import convolution
from tilewright import relay, te
from tilewright.cli.inspect import plan_lines
from tilewright.codegen.llvm import emit
from tilewright.driver.optimize import optimize
from tilewright.frontend.formats.import_model import import_model
from tilewright.runtime.vm.executable import VirtualMachine
from tilewright.target import Target

TARGET = Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3 -l1d=32768 -l2=262144 -l3=8388608 -cores=4")


def test_a_graph_as_imported(check_golden: CheckGolden) -> None:
    check_golden("convolution_relay.txt", str(import_model(convolution(), None)))


def test_a_graph_of_fused_functions(check_golden: CheckGolden) -> None:
    check_golden("convolution_fused.txt", str(optimize(import_model(convolution(), None), TARGET)))


def product() -> tuple[te.Schedule, list[te.Tensor]]:
    """A matrix-vector product whose rows are shared out in blocks of 8, with a tail where 8 does not divide them."""
    matrix, vector = te.placeholder((20, 32), name="matrix"), te.placeholder((32,), name="vector")
    k = te.reduce_axis((0, 32), name="k")
    out = te.compute((20,), lambda i: te.sum(matrix[i, k] * vector[k], axis=k), name="out")
    s = te.create_schedule(out)
    block, lane = s[out].split(out.op.axis[0], factor=8)
    s[out].reorder(block, k, lane)
    s[out].vectorize(lane)
    s[out].parallel(block)
    return s, [matrix, vector, out]


def test_a_schedule_as_its_steps(check_golden: CheckGolden) -> None:
    check_golden("product_schedule.txt", product()[0].to_text())


def test_a_kernel_as_llvm_ir(check_golden: CheckGolden) -> None:
    schedule, tensors = product()
    check_golden("product_llvm.txt", emit([te.lower(schedule, tensors, "product", target=TARGET)], TARGET))


def test_a_graph_as_an_execution_plan(check_golden: CheckGolden) -> None:
    check_golden(
        "convolution_plan.txt", "\n".join(plan_lines(optimize(import_model(convolution(), None), TARGET), None, TARGET))
    )


def test_a_program_with_control_flow_as_bytecode(check_golden: CheckGolden) -> None:
    """Newton's iteration for a square root, until it is exact enough: a function that calls itself."""
    scalar = relay.TensorType((), "float32")
    x, guess = relay.var("x", scalar), relay.var("guess", scalar)
    root = relay.GlobalVar("root")
    root.set_inferred_type(relay.FuncType([scalar, scalar], scalar))
    half = relay.const(np.float32(0.5))
    error = relay.abs(relay.subtract(relay.multiply(guess, guess), x))
    better = relay.multiply(half, relay.add(guess, relay.divide(x, guess)))
    step = relay.If(relay.less(error, relay.const(np.float32(1e-3))), guess, relay.Call(root, [x, better]))
    y = relay.var("y", scalar)
    main = relay.Function([y], relay.Call(root, [y, y]))
    mod = relay.IRModule({root: relay.Function([x, guess], step, scalar), relay.GlobalVar("main"): main})
    exe = tw.compile(mod, cache=False)
    assert isinstance(exe, VirtualMachine)
    np.testing.assert_allclose(exe(np.float32(2)), np.sqrt(2), rtol=1e-3)
    check_golden("root_bytecode.txt", str(exe.program))


def test_a_kernel_after_every_pass(check_golden: CheckGolden) -> None:
    schedule, tensors = product()
    texts, previous = [], ""
    for name, func in te.lower_stages(schedule, tensors, "product"):
        text = str(func)
        texts.append(f"# {name}\n{text}\n" if text != previous else f"# {name}: unchanged\n")
        previous = text
    check_golden("product_stages.txt", "\n".join(texts))


def test_a_difference_is_shown_and_accepted(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("tests.golden.FOLDER", tmp_path)
    with pytest.raises(AssertionError, match=r"(?s)run with --accept.*\+one"):
        compare_or_accept("a.txt", "one\ntwo", accept=False)
    compare_or_accept("a.txt", "one\ntwo", accept=True)
    compare_or_accept("a.txt", "one\ntwo\n", accept=False)
    with pytest.raises(AssertionError, match=r"(?s)-two\n\+three"):
        compare_or_accept("a.txt", "one\nthree\n", accept=False)
