"""The report on a job's compilation, `report.json`: of what was made, or of what was not supported."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tilewright.compile import Compiled
from tilewright.errors import UserError
from tilewright.frontend.formats.import_model import Entry, import_model
from tilewright.relay.ir.module import IRModule
from tilewright.runtime.profile import KernelTime
from tilewright.service.jobs.work.job import Job
from tilewright.service.report import compilation, refusal

_FILE = "report.json"


@contextmanager
def reported(job: Job) -> Iterator[IRModule]:
    """The job's model as imported; an error of the enclosed code that is the model's is in the report, too."""
    try:
        model = job.model()
        job.stage("import")
        entry = Entry(job.options.get("signature"), job.options.get("outputs"))
        yield import_model(str(model), job.options.get("shapes"), entry)
    except UserError as error:
        job.artifact(_FILE).write_text(json.dumps(refusal(job.reason(error), job.task["target"])))
        raise


def write_report(
    job: Job, made: Compiled | None, module: IRModule, times: Sequence[KernelTime] = (), target: str = ""
) -> None:
    """Write the report on what a module was compiled to, for the job's target or another.

    A job does not fail for the lack of one.
    """
    job.stage("report")
    try:
        text = json.dumps(compilation(made, module, target or job.task["target"], times=times), allow_nan=False)
    except Exception:
        print("there is no report on this compilation:", flush=True)
        traceback.print_exc()
        return
    job.artifact(_FILE).write_text(text)
