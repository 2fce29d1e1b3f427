"""Models behind a serial line: on this machine behind a pseudoterminal with noise, and on boards under qemu."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.board.test_board import tools_of
from tests.onnx_models import convolution, perceptron
from tilewright.board import BOARDS, BoardModel, BoardProgram, EmulatedBoard, board_named
from tilewright.board.image import OPTIONS
from tilewright.board.serial.conversation import Conversation
from tilewright.board.serial.device import SerialBoard, SerialProgram
from tilewright.board.serial.firmware import fingerprint, write_sources
from tilewright.board.serial.frames import Frame
from tilewright.board.serial.line import SerialLine
from tilewright.compile import export_source
from tilewright.errors import EnvironmentError_, InputError, UnsupportedError
from tilewright.target import Target

#: What a project brings along, here for a process that has the line as its standard input and output.
_BROUGHT = """
#include <stdint.h>
#include <unistd.h>
uint8_t serial_get(void);
void serial_put(uint8_t byte);
uint64_t serial_count(void);
void tilewright_serve(void);
uint8_t serial_get(void) { uint8_t byte; if (read(0, &byte, 1) != 1) _exit(0); return byte; }
void serial_put(uint8_t byte) { if (write(1, &byte, 1) != 1) _exit(1); }
uint64_t serial_count(void) { static uint64_t count; return count += 1000; }
int main(void) { tilewright_serve(); return 0; }
"""


def program_of(model: Any, folder: Path, target: str = "c -mcpu=generic") -> BoardProgram:
    files = export_source(model, folder / "net.c", target=target, freestanding=True)
    return BoardProgram.of(files, Target("c"))


@pytest.mark.parametrize("size", [0, 1, 253, 254, 255, 256, 600])
def test_frames(size: int) -> None:
    rng = random.Random(size)
    for body in (bytes(size), b"\1" * size, rng.randbytes(size)):
        frame = Frame(rng.randrange(1 << 16), "W", body)
        text = frame.to_bytes()
        assert text[0] == text[-1] == 0 and 0 not in text[1:-1]
        assert Frame.of(text[1:-1]) == frame
        for _ in range(20):
            at = rng.randrange(1, len(text) - 1)
            changed = rng.choice([text[1:at] + text[at + 1 : -1], text[1:at] + b"\7" + text[at:-1]])
            assert Frame.of(changed) in (None, frame)


class Noise:
    """Bytes between a process and a pseudoterminal: of each `rate` some are lost, changed or added."""

    def __init__(self, command: list[str], rate: float, seed: int = 0) -> None:
        self.rate, self.random = rate, random.Random(seed)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.master, self.slave = os.openpty()
        self.path = os.ttyname(self.slave)
        self.line = SerialLine(self.path)
        assert self.process.stdin is not None and self.process.stdout is not None
        ends = (self.master, self.process.stdin.fileno()), (self.process.stdout.fileno(), self.master)
        self.threads = [threading.Thread(target=self._carry, args=pair, daemon=True) for pair in ends]
        for thread in self.threads:
            thread.start()

    def _carry(self, source: int, target: int) -> None:
        try:
            while data := os.read(source, 4096):
                os.write(target, b"".join(self._changed(byte) for byte in data))
        except OSError:
            return

    def _changed(self, byte: int) -> bytes:
        if self.random.random() >= self.rate:
            return bytes([byte])
        kind = self.random.randrange(3)
        return [b"", bytes([byte ^ 1 << self.random.randrange(8)]), bytes([self.random.randrange(256), byte])][kind]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.line.close()
        os.close(self.slave)


@pytest.fixture
def behind(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """A function that runs a model behind a noisy line: its program, the conversation, and the noise."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    made: list[Noise] = []

    def begin(model: Any, rate: float, seconds: float = 0.05) -> tuple[SerialProgram, Noise]:
        program = program_of(model, tmp_path)
        write_sources(program, tmp_path)
        (tmp_path / "main.c").write_text(_BROUGHT)
        strict = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
        command = ["cc", *OPTIONS, *strict, "main.c", "serial.c", "model.c", "-o", "net"]
        subprocess.run(command, cwd=tmp_path, check=True)
        noise = Noise([str(tmp_path / "net")], rate)
        made.append(noise)
        conversation = Conversation(noise.line, "here", seconds)
        assert conversation.fingerprint == fingerprint(program)
        loaded = SerialProgram(program, board_named("cortex-m4"), conversation, b"", None, False, None)  # type: ignore
        return loaded, noise

    yield begin
    for noise in made:
        noise.close()


@pytest.mark.sample(1)
@pytest.mark.parametrize("rate", [0.0, 0.001, 0.01])
def test_noise_changes_no_result(behind: Callable[..., Any], rate: float) -> None:
    loaded, _ = behind(convolution(), rate)
    reference = tw.compile(convolution())
    rng = np.random.default_rng(1)
    for _ in range(6):
        x = rng.standard_normal((1, 3, 12, 12), dtype=np.float32)
        run = loaded.run([x])
        np.testing.assert_allclose(run.outputs[0], reference(x), rtol=1e-4, atol=1e-5)
        assert run.instructions == 1000  # run once, however often that was asked


def test_noise_that_lets_nothing_through_is_one_error(behind: Callable[..., Any]) -> None:
    loaded, noise = behind(perceptron(), 0.0, 0.02)
    x = np.ones((1, 8), np.float32)
    loaded.run([x])
    noise.rate = 0.5
    with pytest.raises(EnvironmentError_, match="the board here does not answer 16 requests over its serial line"):
        loaded.run([x])
    noise.rate = 0.0  # and it is found again, whatever its receiver holds
    np.testing.assert_allclose(loaded.run([x]).outputs[0], tw.compile(perceptron())(x), rtol=1e-5)


def test_a_line_that_ends_is_an_error(behind: Callable[..., Any]) -> None:
    loaded, noise = behind(perceptron(), 0.0, 0.02)
    os.close(noise.master)
    with pytest.raises(EnvironmentError_, match=r"the serial line .* is gone|does not answer"):
        loaded.run([np.ones((1, 8), np.float32)])


def test_refusals(behind: Callable[..., Any], tmp_path: Path) -> None:
    _, noise = behind(perceptron(), 0.0)
    other = program_of(convolution(), tmp_path, "c -mcpu=cortex-m4")
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("needs arm-none-eabi-gcc")
    with pytest.raises(EnvironmentError_, match="the board cortex-m4 runs another program than this: flash it"):
        SerialBoard(board_named("cortex-m4"), noise.path).load(other)
    with pytest.raises(EnvironmentError_, match=r"flashing cortex-m4 failed \(sh\); it says:\nno probe"):
        SerialBoard(board_named("cortex-m4"), noise.path, "sh -c 'echo no probe; exit 1' {folder}").load(other)
    with pytest.raises(EnvironmentError_, match="cannot open the serial line /dev/nowhere"):
        SerialBoard(board_named("cortex-m4"), "/dev/nowhere").load(other)
    with pytest.raises(UnsupportedError, match="kernels of cortex-m4 are not counted"):
        SerialBoard(board_named("cortex-m4"), noise.path).load(other, kernels=True)
    with pytest.raises(EnvironmentError_, match="cortex-m4 is a processor, and no board of qemu's"):
        BoardModel(other, board_named("cortex-m4"), "", "c", "")
    with pytest.raises(InputError, match="has a cortex-m4, which runs no code for riscv32-imac"):
        board_named("cortex-m4").flags("riscv32-imac")


@pytest.mark.parametrize("name", [name for name, board in BOARDS.items() if board.serial])
@pytest.mark.sample(2)
def test_boards_under_qemu(name: str, tmp_path: Path) -> None:
    board = tools_of(name)
    program = program_of(perceptron(), tmp_path, board.target)
    once = EmulatedBoard(board).load(program, kernels=True)
    loaded = SerialBoard(board, "qemu").load(program, kernels=True)
    for seed in range(3):  # without flashing it again
        x = np.random.default_rng(seed).standard_normal((1, 8), dtype=np.float32)
        wanted, found = once.run([x]), loaded.run([x])
        np.testing.assert_array_equal(found.outputs[0], wanted.outputs[0])
        assert abs(found.instructions - wanted.instructions) < 300  # of the counting itself
        assert found.kernels.keys() == wanted.kernels.keys() and 0 < found.stack < 1000
        for kernel, count in wanted.kernels.items():
            assert abs(found.kernels[kernel] - count) <= 100  # two ticks of the slowest timer
    assert loaded.sizes == once.sizes
