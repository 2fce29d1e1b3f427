"""The process of one job, which trusts nothing that it reads: `python -m tilewright.service.jobs.process FOLDER`.

FOLDER holds `job.json` and the model, and gets the artifact and `result.json`. The process imports the compiler, drops
what it does not need (`rpc/sandbox.py`), and then reads the model. It writes what it does to `stage`, a file of one
word. Its exit status is that of the command line: 0, 2 where the model is at fault, 70 for a fault of ours.
"""

from __future__ import annotations

import io
import json
import multiprocessing
import sys
import tarfile
import traceback
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tilewright as tw
from tilewright.errors import UserError
from tilewright.frontend.formats.table import load_all_plugins
from tilewright.rpc.sandbox import Limits, confine
from tilewright.service.jobs.unpack import model_in

#: Files of a job's folder.
JOB, MODEL, STAGE, RESULT, ARTIFACT, LOG = "job.json", "model", "stage", "result.json", "artifact.tar.gz", "log.txt"
DONE, AT_FAULT, INTERNAL = 0, 2, 70


def main(folder: Path) -> int:
    """Run the job of a folder; the exit status."""
    job = json.loads((folder / JOB).read_text())
    load_all_plugins()
    multiprocessing.current_process().daemon = True  # kernels are compiled in this process: it may start no others
    measures = confine(folder, [], Limits(**job["limits"]))
    try:
        result = _compile(folder, job)
        status = DONE
    except UserError as error:
        result, status = {"reason": str(error)}, AT_FAULT
    except MemoryError:
        result, status = {"reason": f"the job needs more than {job['limits']['memory_bytes'] >> 20} MiB"}, AT_FAULT
    except Exception as error:
        traceback.print_exc()
        result, status = {"reason": f"{type(error).__name__}: {error}"[:900]}, INTERNAL
    (folder / RESULT).write_text(json.dumps(result | {"internal": status == INTERNAL, "measures": measures}))
    return status


def _compile(folder: Path, job: dict[str, Any]) -> dict[str, Any]:
    """Compile the model, and pack the artifact; what there is to tell of it."""
    _tell(folder, "unpack")
    unpacked = folder / "unpacked"
    unpacked.mkdir()
    model = model_in(folder / MODEL, job["framework"], unpacked, job["model_bytes"])
    _tell(folder, "compile")
    made = tw.compile(
        str(model), target=job["target"], input_shapes=job["shapes"], precision=job["precision"], cache=False, threads=1
    )
    artifact = folder / "model.tw"
    made.save(artifact)
    inputs = {spec.name: [size if isinstance(size, int) else str(size) for size in spec.shape] for spec in made.inputs}
    _tell(folder, "pack")
    _pack(folder / ARTIFACT, {"model.tw": artifact.read_bytes(), "model.json": _about(job, inputs)})
    return {"inputs": inputs}


def _about(job: dict[str, Any], inputs: dict[str, Any]) -> bytes:
    """A description of the artifact for its owner, as JSON."""
    about = {
        "target": job["target"],
        "precision": job["precision"],
        "inputs": inputs,
        "compiler": version("tilewright"),
    }
    return json.dumps(about, indent=1).encode()


def _pack(target: Path, files: dict[str, bytes]) -> None:
    """Write an archive of files."""
    with target.open("wb") as raw, tarfile.open(fileobj=raw, mode="w:gz", compresslevel=1) as archive:
        for name, contents in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(contents)
            archive.addfile(member, io.BytesIO(contents))


def _tell(folder: Path, stage: str) -> None:
    (folder / STAGE).write_text(stage)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
