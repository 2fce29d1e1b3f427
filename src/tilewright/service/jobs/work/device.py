"""A job's model on a device of the fleet: compiled here for a target that the device has, loaded and run there."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.autotvm.measure.fleet import check_target
from tilewright.compile import Compiled
from tilewright.errors import TargetError, UnsupportedError
from tilewright.relay.ir.module import IRModule
from tilewright.rpc.board.loads import ARTIFACT
from tilewright.rpc.client import RemoteModel, Session
from tilewright.service.jobs.work.compile import compiled
from tilewright.service.jobs.work.job import Job
from tilewright.target import Target
from tilewright.target.spellings import usual_spellings

Arrays = dict[str, np.ndarray[Any, Any]]


def device_of(job: Job) -> Session:
    """The device that a job was lent."""
    assert isinstance(job.device, Session), "the worker borrowed one"
    return job.device


def target_there(job: Job) -> str:
    """The target to compile for: the request's, else the one with most features that the device has.

    Raises `TargetError` where the device does not run its code, `UnsupportedError` where it loads no artifacts.
    """
    device = device_of(job)
    about, which = device.describe(), f"devices of key {job.task['device']!r}"
    if about.get("loads", ARTIFACT) != ARTIFACT:
        raise UnsupportedError(f"{which} load {about['loads']}, which needs a compiler of C: use `tilewright rpc`")
    problem = TargetError(f"{which} are {about['architecture']}, which nothing is compiled for")
    for name in [job.task["target"]] if job.task["target"] else usual_spellings(about["architecture"]):
        try:
            check_target(about, which, Target(name))
            return name
        except TargetError as error:
            problem = error
    raise problem


def loaded_there(job: Job, module: IRModule) -> tuple[Compiled, RemoteModel]:
    """The model of a job as compiled here, and loaded on its device."""
    device = device_of(job)
    with job.watched("compile"):
        made = compiled(job, module, target_there(job))
    job.stage("load")
    there = device.load_module(device.upload(made.model))
    assert isinstance(there, RemoteModel), "an artifact is a model"
    return made, there
