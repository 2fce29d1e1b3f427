"""Training: optimizers, a loss and an optimizer compiled as one step, the loop around it, checkpoints."""

from tilewright.training.checkpoint import Checkpoints
from tilewright.training.data import Arrays
from tilewright.training.loop import EarlyStop, fit
from tilewright.training.rules.accumulate import Accumulated
from tilewright.training.rules.adafactor import Adafactor
from tilewright.training.rules.adam import Adam, AdamW
from tilewright.training.rules.average import Averaged
from tilewright.training.rules.clip import ClippedByNorm, ClippedByValue
from tilewright.training.rules.groups import Frozen, Grouped
from tilewright.training.rules.lion import Lion
from tilewright.training.rules.loss_scale import LossScale
from tilewright.training.rules.optimizer import Optimizer
from tilewright.training.rules.rmsprop import RMSProp
from tilewright.training.rules.sgd import SGD
from tilewright.training.step import TrainingStep, training_step
from tilewright.training.trainer import Trainer

__all__ = [
    "SGD",
    "Accumulated",
    "Adafactor",
    "Adam",
    "AdamW",
    "Arrays",
    "Averaged",
    "Checkpoints",
    "ClippedByNorm",
    "ClippedByValue",
    "EarlyStop",
    "Frozen",
    "Grouped",
    "Lion",
    "LossScale",
    "Optimizer",
    "RMSProp",
    "Trainer",
    "TrainingStep",
    "fit",
    "training_step",
]
