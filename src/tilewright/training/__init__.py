"""Training: optimizers, a loss and an optimizer compiled as one step, the loop around it, checkpoints.

Names are imported on first use: a trainer of an exported step needs no part of the compiler.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.training.artifacts import artifact_step as artifact_step
    from tilewright.training.checkpoint import Checkpoints as Checkpoints
    from tilewright.training.data import Arrays as Arrays
    from tilewright.training.distribute.buckets import Link as Link
    from tilewright.training.distribute.pipeline import PipelineTrainer as PipelineTrainer
    from tilewright.training.distribute.reduce import TopK as TopK
    from tilewright.training.distribute.trainer import DistributedTrainer as DistributedTrainer
    from tilewright.training.export import export_step as export_step
    from tilewright.training.hub.client import HubSession as HubSession
    from tilewright.training.hub.server import Hub as Hub
    from tilewright.training.hub.server import HubSettings as HubSettings
    from tilewright.training.loop import EarlyStop as EarlyStop
    from tilewright.training.loop import fit as fit
    from tilewright.training.loss import loss_of as loss_of
    from tilewright.training.network import Network as Network
    from tilewright.training.network import network_of as network_of
    from tilewright.training.rules.accumulate import Accumulated as Accumulated
    from tilewright.training.rules.adafactor import Adafactor as Adafactor
    from tilewright.training.rules.adam import Adam as Adam
    from tilewright.training.rules.adam import AdamW as AdamW
    from tilewright.training.rules.average import Averaged as Averaged
    from tilewright.training.rules.clip import ClippedByNorm as ClippedByNorm
    from tilewright.training.rules.clip import ClippedByValue as ClippedByValue
    from tilewright.training.rules.groups import Frozen as Frozen
    from tilewright.training.rules.groups import Grouped as Grouped
    from tilewright.training.rules.lion import Lion as Lion
    from tilewright.training.rules.loss_scale import LossScale as LossScale
    from tilewright.training.rules.optimizer import Optimizer as Optimizer
    from tilewright.training.rules.rmsprop import RMSProp as RMSProp
    from tilewright.training.rules.sgd import SGD as SGD
    from tilewright.training.step import TrainingStep as TrainingStep
    from tilewright.training.step import training_step as training_step
    from tilewright.training.trainer import Trainer as Trainer

#: public name -> its module.
_PUBLIC = {
    "Accumulated": "tilewright.training.rules.accumulate",
    "Adafactor": "tilewright.training.rules.adafactor",
    "Adam": "tilewright.training.rules.adam",
    "AdamW": "tilewright.training.rules.adam",
    "Arrays": "tilewright.training.data",
    "Averaged": "tilewright.training.rules.average",
    "Checkpoints": "tilewright.training.checkpoint",
    "ClippedByNorm": "tilewright.training.rules.clip",
    "ClippedByValue": "tilewright.training.rules.clip",
    "DistributedTrainer": "tilewright.training.distribute.trainer",
    "EarlyStop": "tilewright.training.loop",
    "Frozen": "tilewright.training.rules.groups",
    "Grouped": "tilewright.training.rules.groups",
    "Hub": "tilewright.training.hub.server",
    "HubSession": "tilewright.training.hub.client",
    "HubSettings": "tilewright.training.hub.server",
    "Link": "tilewright.training.distribute.buckets",
    "Lion": "tilewright.training.rules.lion",
    "LossScale": "tilewright.training.rules.loss_scale",
    "Network": "tilewright.training.network",
    "Optimizer": "tilewright.training.rules.optimizer",
    "PipelineTrainer": "tilewright.training.distribute.pipeline",
    "RMSProp": "tilewright.training.rules.rmsprop",
    "SGD": "tilewright.training.rules.sgd",
    "TopK": "tilewright.training.distribute.reduce",
    "Trainer": "tilewright.training.trainer",
    "TrainingStep": "tilewright.training.step",
    "artifact_step": "tilewright.training.artifacts",
    "export_step": "tilewright.training.export",
    "fit": "tilewright.training.loop",
    "loss_of": "tilewright.training.loss",
    "network_of": "tilewright.training.network",
    "training_step": "tilewright.training.step",
}

__all__ = [*_PUBLIC]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _PUBLIC:
            raise AttributeError(f"module 'tilewright.training' has no attribute {name!r}")
        value = globals()[name] = getattr(importlib.import_module(_PUBLIC[name]), name)
        return value
