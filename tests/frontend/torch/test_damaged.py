"""Truncated, mutated and hostile archives of PyTorch give one error, and nothing in them runs or fills the memory."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.frontend.running import mutations, refused
from tilewright.errors import ModelError, UnsupportedError, UserError
from tilewright.frontend.torch import from_pytorch

torch = pytest.importorskip("torch", reason="needs torch: see docs/pytorch.md")


class Net(torch.nn.Module):
    """A convolution and a size that stays open."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(2, 3, 3)

    def forward(self, x: Any) -> Any:
        return torch.relu(self.conv(x)).flatten(1) * x.shape[0]


@pytest.fixture(scope="module")
def program() -> dict[str, bytes]:
    """The entries of a `.pt2` archive."""
    batch = torch.export.Dim("batch", min=2, max=64)
    made = torch.export.export(Net().eval(), (torch.ones(4, 2, 6, 6),), dynamic_shapes={"x": {0: batch}})
    buffer = io.BytesIO()
    torch.export.save(made, buffer)
    return entries(buffer.getvalue())


@pytest.fixture(scope="module")
def script() -> dict[str, bytes]:
    """The entries of a TorchScript archive."""
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.trace(Net().eval(), torch.ones(4, 2, 6, 6)), buffer)
    return entries(buffer.getvalue())


def entries(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        return {name: file.read(name) for name in file.namelist()}


def zipped(parts: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        for name, contents in parts.items():
            file.writestr(name, contents)
    return buffer.getvalue()


def read(tmp_path: Path) -> Callable[[bytes], Any]:
    def of(contents: bytes) -> Any:
        path = tmp_path / "model.pt2"
        path.write_bytes(contents)
        return from_pytorch(path)

    return of


def read_script(tmp_path: Path) -> Callable[[bytes], Any]:
    from tilewright.frontend.torch.script.convert import bound, convert_script, load_script

    def of(contents: bytes) -> Any:
        path = tmp_path / "model.pt"
        path.write_bytes(contents)
        module = load_script(path)
        return convert_script(module, bound(module, (torch.ones(4, 2, 6, 6),)))

    return of


def entry(parts: dict[str, bytes], ending: str) -> str:
    return next(name for name in parts if name.endswith(ending))


def test_damaged_programs_are_refused(program: dict[str, bytes], tmp_path: Path) -> None:
    assert read(tmp_path)(zipped(program))
    assert refused(read(tmp_path), mutations(zipped(program), 24)) > 12


def test_programs_whose_graph_is_damaged_are_refused(program: dict[str, bytes], tmp_path: Path) -> None:
    name = entry(program, "models/model.json")
    refused(read(tmp_path), (zipped({**program, name: bad}) for bad in mutations(program[name], 24)))


def test_damaged_scripts_are_refused(script: dict[str, bytes], tmp_path: Path) -> None:
    assert read_script(tmp_path)(zipped(script))
    assert refused(read_script(tmp_path), mutations(zipped(script), 24)) > 12


def changed(program: dict[str, bytes], change: Callable[[dict[str, Any]], None]) -> bytes:
    name = entry(program, "models/model.json")
    model = json.loads(program[name])
    change(model)
    return zipped({**program, name: json.dumps(model).encode()})


RUNNING = "__import__('os').mkdir({!r})"


def test_sizes_do_not_run(program: dict[str, bytes], tmp_path: Path) -> None:
    name = entry(program, "models/model.json")
    text = program[name].decode()
    found = next(part for part in text.split('"expr_str": "')[1:]).partition('"')[0]
    mark = tmp_path / "ran"
    for bad in (
        RUNNING.format(str(mark)),
        "Add('2 * 3')",
        "Pow(Pow(Integer(10), Integer(60)), Integer(60))",
        "'a' * 9",
    ):
        with pytest.raises(ModelError, match=r"has the expression .* which is not read"):
            read(tmp_path)(zipped({**program, name: text.replace(found, bad).encode()}))
    assert not mark.exists()


def test_guards_do_not_run(program: dict[str, bytes], tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    with pytest.raises(ModelError, match=r"has the expression .* which is not read"):
        read(tmp_path)(changed(program, lambda model: model.update(guards_code=[RUNNING.format(str(mark))])))
    assert not mark.exists()


@pytest.mark.parametrize("target", ["torch.os.system", "torch.ops.load_library", "#custom:f", "math.sys.exit"])
def test_calls_of_anything_but_operators_are_refused(program: dict[str, bytes], tmp_path: Path, target: str) -> None:
    def change(model: dict[str, Any]) -> None:
        model["graph_module"]["graph"]["nodes"][0]["target"] = target

    with pytest.raises(ModelError, match="which is no operator; it is not read"):
        read(tmp_path)(changed(program, change))


@pytest.mark.parametrize("kind", ["program", "script"])
def test_bombs_and_paths_out_of_the_archive_are_refused(
    kind: str, program: dict[str, bytes], script: dict[str, bytes], tmp_path: Path
) -> None:
    parts, reader = (program, read) if kind == "program" else (script, read_script)
    root = next(iter(parts)).partition("/")[0]
    with pytest.raises(ModelError, match="says that it unpacks to"):
        reader(tmp_path)(zipped({**parts, f"{root}/extra/zeros": bytes(100 << 20)}, zipfile.ZIP_DEFLATED))
    with pytest.raises(ModelError, match="leads out of the archive"):
        reader(tmp_path)(zipped({**parts, f"{root}/../../outside": b"x"}))


def test_weights_that_are_declared_huge_are_refused(program: dict[str, bytes], tmp_path: Path) -> None:
    name = entry(program, "model_weights_config.json")
    config = json.loads(program[name])
    for strides in ([0, 0, 0, 0], [1 << 40, 1, 1, 1]):
        meta = config["config"]["conv.weight"]["tensor_meta"]
        meta["sizes"] = [{"as_int": 1 << 20}, {"as_int": 1 << 20}, {"as_int": 3}, {"as_int": 3}]
        meta["strides"] = [{"as_int": stride} for stride in strides]
        with pytest.raises(UserError):
            read(tmp_path)(zipped({**program, name: json.dumps(config).encode()}))


def test_classes_that_run_while_they_are_read_are_refused(script: dict[str, bytes], tmp_path: Path) -> None:
    name = entry(script, "conv.py")
    code = script[name].decode() + "\n  def __setstate__(self, state: int) -> NoneType:\n    return None\n"
    with pytest.raises(ModelError, match="has a method __setstate__"):
        read_script(tmp_path)(zipped({**script, name: code.encode()}))


class Reaching(torch.nn.Module):
    """Writes a file as it runs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.from_file("made", True, 10).sum()


class Filling(torch.nn.Module):
    """Makes a tensor of four terabytes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.zeros([1 << 20, 1 << 20]).sum()


@pytest.mark.parametrize(("kind", "message"), [(Reaching, "reads or writes files"), (Filling, "makes more than")])
def test_scripts_reach_no_files_and_fill_no_memory(
    kind: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tilewright.frontend.torch.script.convert import bound, convert_script

    monkeypatch.chdir(tmp_path)
    scripted = torch.jit.script(kind().eval())
    with pytest.raises(UnsupportedError, match=message):
        convert_script(scripted, bound(scripted, (torch.ones(2),)))
    assert not (tmp_path / "made").exists()
