"""Targets that Neo has no name for, through the service's own API: RISC-V under qemu, WebAssembly in Node."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np

from bench.service.harness import Processes, wait_ended
from bench.service.neo_models import Case
from tilewright.support.dtype import DType

#: Targets of `/v1/targets`, and where their artifacts run.
OTHERS = {"riscv64": "RISC-V under qemu", "wasm": "WebAssembly in Node"}
_SECONDS = 900.0
_SCRIPT = """
import { readFileSync, writeFileSync } from "node:fs";
import { ARRAYS, load } from "./model.mjs";
const model = await load(), feeds = {}, shapes = JSON.parse(readFileSync("shapes.json", "utf8"));
model.inputs.forEach(({ name, dtype }, i) => {
  const bytes = readFileSync(`input${i}`);
  feeds[name] = { data: new ARRAYS[dtype](new Uint8Array(bytes).buffer), shape: shapes[i] };
});
const found = await model.run(feeds);
writeFileSync("shapes.json", JSON.stringify(model.outputs.map(({ name, dtype }) => [dtype, found[name].shape])));
model.outputs.forEach(({ name }, i) => writeFileSync(`output${i}`, new Uint8Array(found[name].data.buffer)));
"""


class Others:
    """Jobs of the API below /v1, and what their artifacts compute."""

    def __init__(self, service: Processes) -> None:
        self._service, self._key = service, service.store.add_bearer_key("ada")

    def compiled(self, case: Case, target: str, shapes: dict[str, list[int]]) -> tuple[dict[str, Any], Path, str]:
        """The result of a compilation, the folder of its artifacts, and the reason where it was refused."""
        model = self._ask(f"models?name={case.file.name}", case.file.read_bytes())["id"]
        body = {"kind": "compile", "model": model, "target": target, "options": {"shapes": shapes}}
        made = self._ask("jobs", json.dumps(body).encode(), "application/json")
        job = wait_ended(self._service.store, "ada", f"/{made['id']}", _SECONDS)
        return job.result, self._service.settings.artifacts_folder / job.id, job.reason.removeprefix("ClientError: ")

    def _ask(self, path: str, body: bytes, kind: str = "application/octet-stream") -> Any:
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": kind}
        with urllib.request.urlopen(urllib.request.Request(f"{self._service.url}/v1/{path}", body, headers)) as answer:
            return json.load(answer)


def run_other(target: str, result: dict[str, Any], folder: Path, case: Case) -> list[np.ndarray]:
    """The outputs of an artifact. Raises `OSError` or `RuntimeError` where it does not run."""
    kinds = [DType(spec["dtype"]).numpy for spec in result["inputs"]]
    inputs = [np.ascontiguousarray(value, kind) for kind, value in zip(kinds, case.inputs.values(), strict=True)]
    if target == "riscv64":
        from tests.test_other_machines import RISCV, run_library

        outputs = [(np.dtype(DType(spec["dtype"]).numpy), tuple(spec["shape"])) for spec in result["outputs"]]
        return run_library(folder / "libmodel.so", "model", RISCV, inputs, outputs)
    for number, array in enumerate(inputs):
        (folder / f"input{number}").write_bytes(array.tobytes())
    (folder / "shapes.json").write_text(json.dumps([array.shape for array in inputs]))
    (folder / "run.mjs").write_text(_SCRIPT)
    done = subprocess.run(["node", "run.mjs"], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-200:])
    made = json.loads((folder / "shapes.json").read_text())
    return [
        np.frombuffer((folder / f"output{number}").read_bytes(), DType(dtype).numpy).reshape(shape)
        for number, (dtype, shape) in enumerate(made)
    ]
