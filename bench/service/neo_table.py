"""Neo's frameworks and devices: each model compiled through the service, its artifact run and compared, or refused.

python -m bench.service.neo_table --torch /path/to/python --write docs/neo.md

An artifact is taken out of the archive that a client gets, and runs: for x86-64 in this process, for AArch64 as a
program under qemu, for OpenCL on PoCL. Devices that share a target share code, so each target is compiled for once and
each device that is refused is requested with each framework. Status 1 where a result differs.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.report import machine
from bench.service.harness import Processes, wait_ended
from bench.service.neo_models import MAKERS, Case
from bench.service.neo_others import OTHERS, Others, run_other
from tilewright.errors import UserError

_NOT_RUN = ("cuda",)
_SECONDS = 900.0
#: The most that results may differ, beside the largest number of what is wanted.
_TOLERANCE = 1e-3


def outputs() -> tuple[dict[str, list[dict[str, Any]]], dict[str, str]]:
    """Requests' OutputConfigs by the target that they mean, and the reasons of those that are refused by name."""
    import botocore.session

    from tilewright.service.neo.errors import ServiceError
    from tilewright.service.neo.targets import target_of

    model = botocore.session.get_session().get_service_model("sagemaker")
    members = model.operation_model("CreateCompilationJob").input_shape.members["OutputConfig"].members
    platform = members["TargetPlatform"].members
    asked: list[dict[str, Any]] = [{"TargetDevice": device} for device in members["TargetDevice"].enum]
    for system in platform["Os"].enum:
        for arch in platform["Arch"].enum:
            for accelerator in (None, *platform["Accelerator"].enum):
                chosen = {"Os": system, "Arch": arch} | ({"Accelerator": accelerator} if accelerator else {})
                code = {"CompilerOptions": '{"gpu-code": "sm_86"}'} if accelerator == "NVIDIA" else {}
                asked.append({"TargetPlatform": chosen, **code})
    accepted, refused = dict[str, list[dict[str, Any]]](), dict[str, str]()
    for output in asked:
        try:
            accepted.setdefault(target_of(output).target, []).append(output)
        except ServiceError as error:
            refused[name_of(output)] = str(error)
    return accepted, refused


def name_of(output: dict[str, Any]) -> str:
    """A device's name, or a platform's parts."""
    platform = output.get("TargetPlatform")
    return output["TargetDevice"] if platform is None else " ".join(platform.values())


def short(target: str) -> str:
    """A target as the head of a column."""
    return target.rpartition("=")[2] if "=" in target else target


class Table:
    """The cells of the table, by framework and target."""

    def __init__(self, service: Processes, torch: str, folder: Path) -> None:
        self.service, self.folder = service, folder
        self.cases: dict[str, Case | str] = {}
        for framework, maker in MAKERS.items():
            try:
                self.cases[framework] = maker(service.shared, torch)
            except Exception as error:
                self.cases[framework] = f"no model here: {type(error).__name__}: {error}"[:200]
        self.client = service.client("ada")
        self.cells: dict[tuple[str, str], str] = {}
        self.wrong: list[str] = []
        #: Names and shapes of inputs, as Neo's API tells them.
        self.shapes: dict[str, dict[str, list[int]]] = {}

    def fill(self, accepted: dict[str, list[dict[str, Any]]]) -> None:
        """Compile all, then look at each as it ends."""
        names = {}
        for framework, case in self.cases.items():
            for target, (first, *_) in accepted.items():
                if isinstance(case, str):
                    self.cells[framework, target] = case
                    continue
                name = f"{framework}-{len(names)}"
                names[name] = (framework, target)
                self._create(name, framework, case, first)
        for name, (framework, target) in names.items():
            job = wait_ended(self.service.store, "ada", name, _SECONDS)
            case = self.cases[framework]
            assert isinstance(case, Case)
            if job.status != "COMPLETED":
                self.cells[framework, target] = f"refused: {job.reason.removeprefix('ClientError: ')}"[:160]
                print(
                    f"{framework} for {short(target)}: {job.reason}; its log ends with {job.log[-2000:]!r}", flush=True
                )
                continue
            self.shapes.setdefault(framework, job.result["inputs"])
            location = Path(job.result["location"].removeprefix("file://"))
            self.cells[framework, target] = self._verified(name, target, case, location)
            print(f"{framework} for {short(target)}: {self.cells[framework, target]}", flush=True)

    def fill_others(self) -> None:
        """The same for the targets that Neo does not have."""
        others = Others(self.service)
        for framework, case in self.cases.items():
            for target in OTHERS:
                if isinstance(case, str) or framework not in self.shapes:
                    self.cells[framework, target] = case if isinstance(case, str) else "-"
                    continue
                result, folder, reason = others.compiled(case, target, self.shapes[framework])
                cell = f"refused: {reason}"[:160]
                if not reason:
                    cell = self._compared(
                        f"{framework}-{target}", target, case, partial(run_other, target, result, folder, case)
                    )
                self.cells[framework, target] = cell
                print(f"{framework} for {target}: {cell}", flush=True)

    def _create(self, name: str, framework: str, case: Case, output: dict[str, Any]) -> None:
        request = self.service.request(name, case.file, framework)
        shapes = [list(value.shape) for value in case.inputs.values()]
        named = "" not in case.inputs
        config = dict(zip(case.inputs, shapes)) if named else shapes
        request["InputConfig"]["DataInputConfig"] = str(config).replace("'", '"')
        request["OutputConfig"] = {"S3OutputLocation": request["OutputConfig"]["S3OutputLocation"], **output}
        self.client.create_compilation_job(**request)

    def _verified(self, name: str, target: str, case: Case, packed: Path) -> str:
        folder = self.folder / name
        folder.mkdir()
        with tarfile.open(packed) as archive:
            archive.extractall(folder, filter="data")
        if target.startswith(_NOT_RUN):
            return "compiled"
        return self._compared(name, target, case, lambda: list(_run(folder / "model.tw", target, case, folder)))

    def _compared(self, name: str, target: str, case: Case, run: Callable[[], list[np.ndarray]]) -> str:
        """The largest difference of what runs, as a cell."""
        try:
            found = run()
        except (UserError, OSError, RuntimeError) as error:
            return f"compiled; not run here: {error}"[:160]
        apart = max(_difference(wanted, found) for wanted in case.outputs)
        if not apart <= _TOLERANCE:
            self.wrong.append(f"{name} for {target} differs by {apart:.2g}")
        return f"{apart:.0e}" if apart else "equal"


def _difference(wanted: np.ndarray, found: list[np.ndarray]) -> float:
    """The largest difference from the nearest output of this size, by the largest number of what is wanted."""
    scale = float(np.abs(wanted).max()) or 1.0
    alike = [one.reshape(wanted.shape) for one in found if one.size == wanted.size]
    return min((float(np.abs(one - wanted).max()) / scale for one in alike), default=float("inf"))


def _run(artifact: Path, target: str, case: Case, folder: Path) -> Iterator[np.ndarray]:
    """The outputs of an artifact, where it runs."""
    import tilewright as tw

    if "aarch64" in target:
        from tests.test_other_machines import ARM, run_there
        from tilewright.runtime.artifact import FORMAT, read_container
        from tilewright.runtime.foreign import ForeignModel
        from tilewright.runtime.manifest import Manifest

        there = read_container(artifact, FORMAT)
        model = ForeignModel(there.object_code, Manifest.from_json(there.manifest), there.weights, there.pool)
        given = {spec.name: np.ascontiguousarray(value, spec.numpy)
                 for spec, value in zip(model.inputs, case.inputs.values())}  # fmt: skip
        yield from run_there(model, ARM, given, folder)
        return
    executable = tw.load(artifact)
    given = {spec.name: value.astype(spec.numpy) for spec, value in zip(executable.inputs, case.inputs.values())}
    found = executable.run(given)
    yield from (np.asarray(one) for one in (found if isinstance(found, list | tuple) else [found]))


def written(table: Table, accepted: dict[str, list[dict[str, Any]]], refused: dict[str, str]) -> str:
    """The page of docs."""
    columns = [*accepted, *OTHERS]
    lines = [
        "# Frameworks and devices of Neo", "",
        f"Made by `python -m bench.service.neo_table` ({machine()}). A number is the largest difference of the outputs",
        "from those of the framework itself, onnxruntime or NumPy, by the largest of them; x86-64 ran here, AArch64",
        "under qemu, OpenCL on PoCL, CUDA was compiled and not run. RISC-V (under qemu) and WebAssembly (in Node),",
        "which Neo does not have, were compiled by the service's own API.", "",
        "| framework | model; compared with | " + " | ".join(map(short, columns)) + " |",
        "|---" * (2 + len(columns)) + "|",
    ]  # fmt: skip
    notes: list[str] = []
    for framework, case in table.cases.items():
        cells = []
        for target in columns:
            text = table.cells.get((framework, target), "-")
            if len(text) > 12:
                if text not in notes:
                    notes.append(text)
                text = f"({notes.index(text) + 1})"
            cells.append(text)
        about = case.about if isinstance(case, Case) else "-"
        lines.append(f"| {framework} | {about} | " + " | ".join(cells) + " |")
    lines += ["", *(f"({number}) {note}" for number, note in enumerate(notes, 1)), ""]
    lines += ["| target | TargetDevice or TargetPlatform |", "|---|---|"]
    lines += [f"| `{target}` | {', '.join(map(name_of, asked))} |" for target, asked in accepted.items()]
    reasons: dict[str, list[str]] = {}
    for name, reason in refused.items():
        reasons.setdefault(reason.replace(f"TargetDevice {name} ", ""), []).append(name)
    lines += ["", "| refused, with every framework | reason |", "|---|---|"]
    lines += [f"| {', '.join(names)} | {reason} |" for reason, names in reasons.items()]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Fill the table; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", default=sys.executable, help="a Python that has PyTorch")
    parser.add_argument("--write", metavar="FILE", help="where to write the page")
    parser.add_argument("--only", default="", metavar="TEXT", help="targets that have this in them")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # no process is left behind
    accepted, refused = outputs()
    accepted = {target: made for target, made in accepted.items() if args.only in target}
    with tempfile.TemporaryDirectory(prefix="neo", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        service = Processes(Path(folder) / "service")
        try:
            service.serve("--workers", "1", "--jobs-of-owner", "1000")
            table = Table(service, args.torch, Path(folder))
            table.fill(accepted)
            if not args.only:
                table.fill_others()
        finally:
            service.close()
        page = written(table, accepted, refused)
    print(page)
    if args.write:
        Path(args.write).write_text(page)
    print("\n".join(table.wrong) or "no result differs")
    return 1 if table.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
