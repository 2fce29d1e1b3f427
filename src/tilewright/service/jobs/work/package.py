"""Jobs of Amazon's API: the artifact and a description of it, packed as one archive."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import tilewright as tw
from tilewright.service.jobs.work.job import ARTIFACT, Job
from tilewright.support.version import version


def package_model(job: Job) -> dict[str, Any]:
    """Compile the job's model and pack it; the shapes of its inputs by name."""
    task, model = job.task, job.model()
    with job.watched("compile"):
        made = tw.compile(
            str(model), target=task["target"], input_shapes=task["shapes"], precision=task["precision"], cache=False,
            threads=1,
        )  # fmt: skip
    artifact = job.folder / "model.tw"
    made.save(artifact)
    inputs = {spec.name: [size if isinstance(size, int) else str(size) for size in spec.shape] for spec in made.inputs}
    job.stage("pack")
    about = {
        "target": task["target"],
        "precision": task["precision"],
        "inputs": inputs,
        "compiler": version(),
    }
    _pack(
        job.folder / ARTIFACT, {"model.tw": artifact.read_bytes(), "model.json": json.dumps(about, indent=1).encode()}
    )
    return {"inputs": inputs}


def _pack(target: Path, files: dict[str, bytes]) -> None:
    """Write an archive of files."""
    with target.open("wb") as raw, tarfile.open(fileobj=raw, mode="w:gz", compresslevel=1) as archive:
        for name, contents in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(contents)
            archive.addfile(member, io.BytesIO(contents))
