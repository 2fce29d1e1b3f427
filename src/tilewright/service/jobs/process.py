"""The process of one job, which trusts nothing that it reads: `python -m tilewright.service.jobs.process FOLDER`.

FOLDER holds `job.json` and the model, and gets artifacts and `result.json`. The process imports the compiler, drops
what it does not need (`rpc/sandbox.py`), and then reads the model. Its stage, with the share of it that is done, goes
to `stage`, its words to the log. Its exit status is that of the command line: 0, 2 where the model is at fault, 70 for
a fault of ours.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tilewright.compile  # noqa: F401 - what comes before the confinement can read all packages
from tilewright.errors import EnvironmentError_, UserError
from tilewright.frontend.formats.table import load_all_plugins
from tilewright.rpc.sandbox import Limits, confine, own_processes
from tilewright.runtime.gpu.devices import withdraw_devices
from tilewright.service.jobs.fleet import reached
from tilewright.service.jobs.work.job import ARTIFACT, JOB, LOG, MODEL, RESULT, STAGE, Job

__all__ = ["ARTIFACT", "JOB", "LOG", "MODEL", "RESULT", "STAGE", "main"]

DONE, AT_FAULT, INTERNAL = 0, 2, 70

#: The module and function of each kind of job.
WORK = {
    "compile": ("compile", "compile_model"),
    "quantize": ("quantize", "quantize_model"),
    "tune": ("tune", "tune_model"),
    "profile": ("profile", "profile_model"),
    "verify": ("verify", "verify_model"),
}
#: Those of Amazon's API, whose artifact is one archive.
_PACKAGE = ("package", "package_model")


def main(folder: Path) -> int:
    """Run the job of a folder; the exit status."""
    task = json.loads((folder / JOB).read_text())
    job = Job(folder, task, reached(task["lent"]) if task.get("lent") else None)
    work = _work(*(WORK[job.task["kind"]] if "upload" in job.task else _PACKAGE))
    load_all_plugins()
    wants_children = job.task["kind"] == "tune" or job.task.get("form") == "library"
    children = wants_children and own_processes()
    # kernels are compiled in this process, where it may start no others
    multiprocessing.current_process().daemon = not children
    withdraw_devices("a job's process drives no devices")
    measures = confine(folder, [], Limits(**job.task["limits"]), children=children)
    try:
        if wants_children and not children:
            raise EnvironmentError_("jobs of this kind need processes of their own, and the system has none for them")
        result, status = work(job), DONE
    except UserError as error:
        result, status = {"reason": job.reason(error)}, AT_FAULT
    except MemoryError:
        most = job.task["limits"]["memory_bytes"] >> 20
        result, status = {"reason": f"the job needs more than {most} MiB"}, AT_FAULT
    except Exception as error:
        traceback.print_exc()
        result, status = {"reason": f"{type(error).__name__}: {job.reason(error)}"[:900]}, INTERNAL
    found = {"internal": status == INTERNAL, "measures": measures}
    (folder / RESULT).write_text(json.dumps(result | found))
    return status


def _work(module: str, function: str) -> Callable[[Job], dict[str, Any]]:
    found: Callable[[Job], dict[str, Any]] = getattr(
        importlib.import_module(f"tilewright.service.jobs.work.{module}"), function
    )
    return found


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
