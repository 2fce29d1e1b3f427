"""Projects around C source: built and run by the tools that there are, their descriptions against the tools' fields."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.cli.conftest import Command
from tests.onnx_models import perceptron, saved
from tests.runtime.test_c_stream import recurrent
from tilewright.board.project import LAYOUTS, write_project
from tilewright.board.project.example import STEPS, pattern
from tilewright.compile import export_source
from tilewright.errors import InputError, UnsupportedError

ARDUINO = Path("/usr/share/arduino/hardware/arduino")
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


def made(layout: str, folder: Path, cpu: str = "generic") -> Path:
    """The perceptron as a project named net."""
    written = export_source(perceptron(), folder / "source" / "net.c", target=f"c -mcpu={cpu}", freestanding=True)
    write_project(written, folder / "net", layout, cpu)
    return folder / "net"


@pytest.fixture(autouse=True)
def source_folder(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()


def ran(*command: object, cwd: Path) -> str:
    done = subprocess.run([str(one) for one in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def expected() -> np.ndarray:
    """The outputs for the pattern of the example."""
    executable = tw.compile(perceptron())
    (spec,) = executable.inputs
    return np.asarray(executable(np.array([[pattern(spec, index) for index in range(8)]], np.float32)))[0]


def assert_printed(text: str) -> None:
    found = re.search(r"y:((?: -?[\d.e+-]+)+)$", text, re.MULTILINE)
    assert found is not None, text
    np.testing.assert_allclose(np.array(found[1].split(), np.float32), expected(), rtol=1e-5, atol=1e-5)


@needs_cc
@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake (Debian: apt install cmake)")
def test_cmake_builds_installs_and_is_found(tmp_path: Path) -> None:
    project = made("cmake", tmp_path)
    ran("cmake", "-B", "build", f"-DCMAKE_INSTALL_PREFIX={tmp_path / 'there'}", cwd=project)
    ran("cmake", "--build", "build", cwd=project)
    assert_printed(ran("build/net_example", cwd=project))
    ran("cmake", "--install", "build", cwd=project)
    user = tmp_path / "user"
    user.mkdir()
    (user / "main.c").write_text((project / "examples" / "main.c").read_text())
    lines = (
        "cmake_minimum_required(VERSION 3.16)", "project(user C)", "find_package(net 1.0 REQUIRED)",
        "add_executable(user main.c)", "target_link_libraries(user net::net)",
    )  # fmt: skip
    (user / "CMakeLists.txt").write_text("\n".join(lines))
    ran("cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={tmp_path / 'there'}", cwd=user)
    ran("cmake", "--build", "build", cwd=user)
    assert_printed(ran("build/user", cwd=user))


@pytest.mark.parametrize("cpu", ["cortex-m4", "riscv32-imac"])
def test_cmake_for_a_board_runs_under_qemu(cpu: str, tmp_path: Path) -> None:
    prefix, emulator = ("arm-none-eabi", "arm") if cpu == "cortex-m4" else ("riscv64-unknown-elf", "riscv32")
    for tool in ("cmake", f"{prefix}-gcc", f"qemu-system-{emulator}"):
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}")
    if not Path(f"/usr/lib/picolibc/{prefix}").exists():
        pytest.skip(f"needs picolibc (Debian: apt install picolibc-{prefix})")
    project = made("cmake", tmp_path, cpu)
    ran("cmake", "-B", "build", "--toolchain", f"cmake/{cpu}.cmake", cwd=project)
    ran("cmake", "--build", "build", cwd=project)
    assert_printed(ran("ctest", "--test-dir", "build", "--verbose", cwd=project))


@needs_cc
@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake (Debian: apt install cmake)")
def test_zephyr_module(tmp_path: Path) -> None:
    """The CMake of the module with Zephyr's functions as those of plain CMake; the other files by their fields."""
    project = made("zephyr", tmp_path)
    module = (project / "zephyr" / "module.yml").read_text()
    assert module == "name: net\nbuild:\n  cmake: zephyr\n  kconfig: zephyr/Kconfig\nsamples:\n  - samples\n"
    assert (project / "zephyr" / "Kconfig").read_text().startswith('config TILEWRIGHT_NET\n\tbool "')
    settings = (project / "samples" / "run" / "prj.conf").read_text()
    assert "CONFIG_TILEWRIGHT_NET=y\n" in settings and "CONFIG_REQUIRES_FLOAT_PRINTF=y\n" in settings
    (tmp_path / "stand_in").mkdir()
    stand_in = """
        cmake_minimum_required(VERSION 3.16)
        project(stand_in C)
        set(CONFIG_TILEWRIGHT_NET y)
        macro(zephyr_include_directories)
          include_directories(${ARGV})
        endmacro()
        macro(zephyr_library_named name)
          set(ZEPHYR_CURRENT_LIBRARY ${name})
          add_library(${name} STATIC)
        endmacro()
        macro(zephyr_library_sources)
          target_sources(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGV})
        endmacro()
        macro(zephyr_library_compile_options)
          target_compile_options(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGV})
        endmacro()
        add_subdirectory(../net/zephyr module)
        add_executable(app ../net/samples/run/src/main.c)
        target_include_directories(app PRIVATE ../net/include)
        target_link_libraries(app net)
    """
    (tmp_path / "stand_in" / "CMakeLists.txt").write_text(stand_in)
    ran("cmake", "-B", "build", cwd=tmp_path / "stand_in")
    ran("cmake", "--build", "build", cwd=tmp_path / "stand_in")
    assert_printed(ran("build/app", cwd=tmp_path / "stand_in"))


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_arduino_library(tmp_path: Path) -> None:
    """The fields of the specification; the sketch against a Serial that prints."""
    project = made("arduino", tmp_path)
    lines = (project / "library.properties").read_text().splitlines()
    fields = dict(line.split("=", 1) for line in lines)
    needed = {"name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url", "architectures"}
    assert needed <= fields.keys() and all(fields.values())
    assert re.fullmatch(r"[A-Za-z0-9][\w.\- ]{0,62}", fields["name"]) and re.fullmatch(
        r"\d+\.\d+\.\d+", fields["version"]
    )
    assert fields["includes"] == "net.h" and fields["category"] == "Data Processing"
    board = """
        #include <cstdio>
        #include <cstdlib>
        struct Port {
          operator bool() const { return true; }
          void begin(long) {}
          void print(const char *text) { std::printf("%s", text); }
          void print(long number) { std::printf("%ld", number); }
          void print(double number) { std::printf("%g", number); }
          void println(const char *text) { std::printf("%s\\n", text); }
          void println(unsigned long number) { std::printf("%lu\\n", number); }
        } Serial;
        static unsigned long micros() { return 1; }
        static void delay(int) { std::exit(0); }
        #include "examples/Run/Run.ino"
        int main() { setup(); for (;;) loop(); }
    """
    (project / "board.cpp").write_text(board)
    ran("gcc", "-c", "-Wall", "-Wextra", "-Werror", "src/net.c", "-o", "net.o", cwd=project)
    ran("g++", "-Wall", "-Wextra", "-Werror", "-Isrc", "board.cpp", "net.o", "-o", "board", cwd=project)
    assert_printed(ran("./board", cwd=project))


@pytest.mark.skipif(
    not all(map(shutil.which, ("arduino-builder", "avr-gcc", "simavr"))) or not ARDUINO.is_dir(),
    reason="needs Arduino's tools (Debian: apt install arduino-builder arduino-core-avr simavr)",
)
@pytest.mark.long
def test_arduino_builds_and_runs_it_on_8_bits(tmp_path: Path) -> None:
    """The sketch on an Arduino Mega 2560: an int has 16 bits there, and a float may be at any address."""
    project = made("arduino", tmp_path)
    for folder in ("hardware", "build", "libraries"):
        (tmp_path / folder).mkdir()
    (tmp_path / "hardware" / "arduino").symlink_to(ARDUINO)
    shutil.copy("/usr/share/arduino-builder/platform.txt", tmp_path / "hardware")
    shutil.copytree(project, tmp_path / "libraries" / "net")
    preferences = {
        "runtime.tools.avr-gcc.path": "/usr",
        "tools.ctags.cmd.path": "/usr/bin/arduino-ctags",
        "compiler.cpp.extra_flags": "-DDECIMAL_DIG=17",  # Arduino's own String lacks it with GCC 5
    }
    ran(
        "arduino-builder", "-compile", "-hardware", "hardware", "-tools", "/usr/share/arduino", "-libraries",
        "libraries", *(f"-prefs={key}={value}" for key, value in preferences.items()),
        "-fqbn", "arduino:avr:mega:cpu=atmega2560", "-build-path", tmp_path / "build",
        project / "examples" / "Run" / "Run.ino", cwd=tmp_path,
    )  # fmt: skip
    command = ["timeout", "10", "simavr", "-m", "atmega2560", "-f", "16000000", "build/Run.ino.elf"]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = re.search(r"y:((?: -?[\d.]+\d)+)", shown.stderr)
    assert found is not None, shown.stdout + shown.stderr
    np.testing.assert_allclose(np.array(found[1].split(), np.float32), expected(), atol=0.006)  # two digits are printed


@needs_cc
def test_platformio_library(tmp_path: Path) -> None:
    """The fields of library.json, and what PlatformIO makes of them: all of src with these flags."""
    project = made("platformio", tmp_path)
    manifest = json.loads((project / "library.json").read_text())
    assert {"name", "version", "description", "frameworks", "platforms", "headers", "build"} <= manifest.keys()
    assert re.fullmatch(r"\d+\.\d+\.\d+", manifest["version"])
    example = manifest["examples"][0]
    sources = [f"{example['base']}/{name}" for name in example["files"]] + ["src/net.c"]
    assert (project / "include" / manifest["headers"]).is_file()
    ran("cc", *manifest["build"]["flags"], "-Iinclude", *sources, "-o", "run", cwd=project)
    assert_printed(ran("./run", cwd=project))


def test_platformio_reads_both_libraries(tmp_path: Path) -> None:
    package = pytest.importorskip("platformio.package.manifest.parser", reason="needs platformio (PyPI)")
    schema = pytest.importorskip("platformio.package.manifest.schema")
    for layout in ("platformio", "arduino"):
        project = made(layout, tmp_path)
        read = schema.ManifestSchema().load_manifest(package.ManifestParserFactory.new_from_dir(str(project)).as_dict())
        assert read["name"] == "net" and read["version"] == "1.0.0"
        shutil.rmtree(project)


def test_examples_stay_and_the_rest_is_replaced(tmp_path: Path) -> None:
    project = made("cmake", tmp_path)
    for name in ("examples/main.c", "src/net.c"):
        (project / name).write_text("mine")
    made("cmake", tmp_path)
    assert (project / "examples" / "main.c").read_text() == "mine"
    assert (project / "src" / "net.c").read_text() != "mine"


@needs_cc
@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
def test_the_example_of_a_model_with_states_runs_steps(kind: str, tmp_path: Path) -> None:
    """The steps of its stream, whose states nobody but the library has, against the model with states in and out."""
    model = recurrent(kind, 1)
    states = {"h": "h_next"} if kind == "GRU" else {"h": "h_next", "c": "c_next"}
    written = export_source(model, tmp_path / "source" / "net.c", freestanding=True, states=states)
    write_project(written, tmp_path / "net", "cmake")
    strict = ("-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")
    files = ("examples/main.c", "src/net.c")
    ran("cc", "-std=c99", "-fwrapv", *strict, "-Iinclude", *files, "-o", "run", cwd=tmp_path / "net")
    printed = re.findall(r"^(\w+):((?: -?[\d.e+-]+)+)$", ran("./run", cwd=tmp_path / "net"), re.MULTILINE)
    assert [name for name, _ in printed] == ["y"] * STEPS
    executable = tw.compile(model)
    values = {name: np.zeros((1, 1, 5), np.float32) for name in states}
    for step, (_, numbers) in enumerate(printed):
        x = np.array([pattern(executable.inputs[0], index + step) for index in range(3)], np.float32)
        y, *after = executable.run({"x": x.reshape(1, 1, 3), **values})
        values = dict(zip(states, after, strict=True))
        np.testing.assert_allclose(np.array(numbers.split(), np.float32), y.ravel(), rtol=1e-4, atol=1e-5)


def test_sealed_weights_are_no_part_of_a_project(tilewright: Command, tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="needs the package cryptography")
    saved(perceptron(), tmp_path / "net.onnx")
    tilewright("keygen", tmp_path / "mine")
    tilewright("keygen", tmp_path / "new", "--encryption")
    keys = ["--sign", tmp_path / "mine.pem", "--encrypt", tmp_path / "new.key"]
    outcome = tilewright("compile", tmp_path / "net.onnx", "-o", tmp_path / "net", "--layout", "cmake", *keys)
    assert outcome.status == 2 and outcome.err.count("\n") == 1
    assert "(net.weights.sealed), which no project builds: write the C source alone (-o model.c)\n" in outcome.err
    assert not (tmp_path / "net").exists()


def test_refusals(tmp_path: Path) -> None:
    written = export_source(perceptron(), tmp_path / "net.c")
    with pytest.raises(InputError, match="there is no layout 'make'; known: cmake"):
        write_project(written, tmp_path / "out", "make")
    symbolic = export_source(perceptron(rows="N"), tmp_path / "net.c")
    with pytest.raises(UnsupportedError, match="projects have models of fixed sizes"):
        write_project(symbolic, tmp_path / "out", "cmake")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_command(layout: str, tilewright: Command, tmp_path: Path) -> None:
    model = saved(perceptron(), tmp_path / "net.onnx")
    outcome = tilewright("compile", model, "-o", tmp_path / "kws", "--layout", layout)
    assert outcome.status == 0 and "kws: a project of " in outcome.out
    assert (tmp_path / "kws" / "src" / "kws.c").is_file()


def test_the_command_refuses(tilewright: Command, tmp_path: Path) -> None:
    model = saved(perceptron(), tmp_path / "net.onnx")
    outcome = tilewright("compile", model, "-o", tmp_path / "net.c", "--layout", "cmake")
    assert outcome.status == 2 and "--layout writes a folder; name one" in outcome.err
    assert not (tmp_path / "net.c").exists()


def test_a_library_for_a_board(tilewright: Command, tmp_path: Path) -> None:
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("needs arm-none-eabi-gcc")
    model = saved(perceptron(), tmp_path / "net.onnx")
    common: Sequence[object] = ("compile", model, "--freestanding", "--target")
    assert tilewright(*common, "c -mcpu=cortex-m4", "-o", tmp_path / "net.a").status == 0
    assert (tmp_path / "net.h").is_file()
    symbols = ran("arm-none-eabi-nm", "--defined-only", "net.a", cwd=tmp_path)
    assert " T tilewright_net_run\n" in symbols
    outcome = tilewright(*common, "c -mcpu=generic", "-o", tmp_path / "other.a")
    assert outcome.status == 2 and "a library is code of one processor" in outcome.err
