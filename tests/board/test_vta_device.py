"""VTA as a device of a board under qemu: results of this process, overlap with the processor, several models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.backend.vta.test_quantized import RandomNetwork
from tests.board.test_board import tools_of
from tests.onnx_models import perceptron
from tilewright import relay
from tilewright.board import BoardModel, BoardProgram
from tilewright.board.timeline import Timeline
from tilewright.board.vta_device import relocated
from tilewright.compile import export_image, export_source
from tilewright.errors import InputError, UnsupportedError
from tilewright.relay.ir.expr import Expr, Function
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.target import Target
from tilewright.vta import Isa, assemble

BESIDE = "vta -host=riscv32-imac"


def network() -> IRModule:
    """Bytes in, bytes out: a convolution over patches, some with a residual sum, a head."""
    rng = np.random.default_rng(5)

    def layer(data: Expr, *shape: int, shift: int, strides: tuple[int, int] = (1, 1)) -> Expr:
        pads = (shape[2] // 2, shape[3] // 2)
        weight = relay.const(rng.integers(-20, 21, shape).astype("int8"))
        sums = relay.nn.conv2d(data, weight, strides=strides, padding=pads, out_dtype="int32")
        biased = relay.add(sums, relay.const(rng.integers(-500, 500, (1, shape[0], 1, 1)).astype("int32")))
        return relay.cast(relay.clip(relay.right_shift(biased, relay.const(np.int32(shift))), -128, 127), "int8")

    x = relay.var("x", shape=(1, 3, 11, 9), dtype="int8")
    first = layer(x, 16, 3, 5, 3, shift=8, strides=(2, 1))
    second = first
    for _ in range(8):  # about half as long on the accelerator as the processor takes for the patches
        second = layer(second, 16, 16, 3, 3, shift=9)
    total = relay.add(relay.cast(first, "int32"), relay.cast(second, "int32"))
    joined = relay.cast(relay.clip(relay.right_shift(total, relay.const(np.int32(1))), -128, 127), "int8")
    return infer_type(IRModule.from_expr(Function([x], layer(joined, 5, 16, 1, 1, shift=7))))


def images(count: int) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(6)
    return [rng.integers(-128, 128, (1, 3, 11, 9)).astype("int8") for _ in range(count)]


def on_board(mod: Any, target: str, folder: Path) -> BoardModel:
    board = tools_of("virt+vta")
    files = export_source(mod, folder / "net.c", target=target, freestanding=True)
    return BoardModel(BoardProgram.of(files, Target(target)), board, board.cpu, target, "")


def run(model: BoardModel, arrays: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    return model.run({spec.name: array for spec, array in zip(model.inputs, arrays, strict=True)})


def ticks(timeline: Timeline) -> list[tuple[str, int, int]]:
    """The spans in nanoseconds."""
    return [(span.track, round(span.start * 1e9), round(span.end * 1e9)) for span in timeline.spans]


def test_runs_overlap_and_are_those_of_this_process(tmp_path: Path) -> None:
    mod, given = network(), images(4)
    here = tw.compile(mod, cache=False)
    expected = [np.asarray(here(image)) for image in given]
    together = on_board(mod, f"{BESIDE} -runs=4", tmp_path)
    assert [spec.name for spec in together.inputs] == ["x_0", "x_1", "x_2", "x_3"]
    for found, want in zip(run(together, given), expected, strict=True):
        np.testing.assert_array_equal(found, want)
    one = on_board(mod, BESIDE, tmp_path)
    np.testing.assert_array_equal(run(one, given[:1])[0], expected[0])
    assert one.last is not None and one.last.timeline is not None
    assert together.last is not None and together.last.timeline is not None
    alone, beside = one.last.timeline, together.last.timeline
    assert alone.overlap == pytest.approx(1, abs=0.02)  # one run has nothing to do meanwhile
    assert len([span for span in beside.spans if span.track == "VTA"]) == 4
    assert beside.accelerator == pytest.approx(4 * alone.accelerator, rel=0.01)  # bursts end at pages
    assert 1.3 * beside.seconds < 4 * alone.seconds
    assert beside.waiting < 1.05 * alone.accelerator  # for the last alone
    run(together, given)
    assert ticks(together.last.timeline) == ticks(beside)  # to the cycle, which takes 10 ns


SMALL = "-log_uop_buff_size=11 -log_inp_buff_size=12 -log_wgt_buff_size=12 -log_acc_buff_size=14"


@pytest.mark.sample(1)
@pytest.mark.parametrize("figures", [f"-log_batch=1 -log_block=3 {SMALL}", "-log_block=5 -log_wgt_buff_size=20"])
def test_tiles_of_other_shapes(figures: str, tmp_path: Path) -> None:
    mod = network()
    model = on_board(mod, f"{BESIDE} {figures}", tmp_path)
    np.testing.assert_array_equal(run(model, images(1))[0], np.asarray(tw.compile(mod, cache=False)(images(1)[0])))


def test_sums_of_several_bytes_come_back_to_the_processor(tmp_path: Path) -> None:
    mod = RandomNetwork(2).module(layers=2)
    (x,) = mod["main"].params
    given = np.random.default_rng(1).standard_normal(x.checked_type.concrete_shape).astype("float32")
    model = on_board(mod, BESIDE, tmp_path)
    assert len(model.program.launches) >= 2 and "tilewright_vta_join(" in model.program.source.split("_wait(void")[-1]
    np.testing.assert_array_equal(run(model, [given])[0], np.asarray(tw.compile(mod, cache=False)(given)))


def test_a_profile_has_the_programs_and_the_waiting(tmp_path: Path) -> None:
    model = on_board(network(), f"{BESIDE} -runs=2", tmp_path)
    rows = model.profile({"x_0": images(2)[0], "x_1": images(2)[1]})
    assert [row.kernel for row in rows] == ["processor", "waits for VTA", "VTA", "VTA"]
    assert all(row.seconds > 0 for row in rows) and "one after the other" in model.note
    assert rows[2].seconds == pytest.approx(rows[3].seconds, rel=0.01) and rows[2].source.startswith("nn.conv2d, ")


def test_a_model_of_the_accelerator_and_one_of_the_processor_in_one_image(tmp_path: Path) -> None:
    board, models = tools_of("virt+vta"), {"seen": network(), "mixed": perceptron()}
    targets = {"seen": BESIDE, "mixed": "c -mcpu=riscv32-imac"}
    files = export_image(models, tmp_path / "both.c", target=targets, freestanding=True)
    program = BoardProgram.of(files, Target(BESIDE))
    sizes = [model.c_model.interface.workspace_size for model in files.models]
    assert program.interface.workspace_size == max(sizes)
    model = BoardModel(program, board, board.cpu, BESIDE, "")
    assert [spec.name for spec in model.inputs] == ["seen.x", "mixed.x"]
    x = np.random.default_rng(2).standard_normal((1, 8), dtype=np.float32)
    seen, mixed = run(model, [images(1)[0], x])
    np.testing.assert_array_equal(seen, np.asarray(tw.compile(network(), cache=False)(images(1)[0])))
    np.testing.assert_allclose(mixed, np.asarray(tw.compile(perceptron(), cache=False)(x)), rtol=1e-5)
    assert model.last is not None and model.last.timeline is not None
    assert len([span for span in model.last.timeline.spans if span.track == "VTA"]) == 1


def test_models_of_two_processors_are_no_image(tmp_path: Path) -> None:
    targets = {"a": BESIDE, "b": "c -mcpu=cortex-m4"}
    with pytest.raises(UnsupportedError, match="are for one processor, and one configuration of VTA beside it"):
        export_image({"a": network(), "b": perceptron()}, tmp_path / "both.c", target=targets)


def test_addresses_count_from_the_base_of_their_memory() -> None:
    isa = Isa()
    program = assemble(
        isa,
        """
        LOAD mem_id=ACC_8BIT dram=3 y_size=1 x_size=1 x_stride=1
        LOAD mem_id=WGT dram=2 y_size=1 x_size=1 x_stride=1
        LOAD mem_id=INP pop_next
        FINISH
    """,
    )
    bases = {"UOP": 0, "INP": 16, "WGT": 512, "ACC": 64, "OUT": 1600}
    moved = relocated(isa, program, bases)
    assert [one["dram"] for one in moved[:3]] == [103, 4, 0] and moved[3] == program[3]  # only tokens: no address
    with pytest.raises(InputError, match="WGT begins at byte 100 of the memory, which is no multiple of 256"):
        relocated(isa, program, {**bases, "WGT": 100})
