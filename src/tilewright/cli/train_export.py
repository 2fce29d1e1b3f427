"""`tilewright train-export MODEL -o OUT`: a network with a loss and an optimizer, as a step that trains by itself."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli.options import parse_shapes, require_model
from tilewright.cli.outputs import check_writable
from tilewright.errors import InputError

if TYPE_CHECKING:
    from tilewright.training import Optimizer

_OPTIMIZERS = ("sgd", "adam", "adamw", "rmsprop", "lion", "adafactor")


@click.command("train-export")
@click.argument("model")
@click.option("-o", "--output", required=True, help="artifact (.tw), library (.so) or C source (.c)")
@click.option("--input-shapes", metavar="SHAPES", help="sizes of the inputs, the batch among them: 'x:[32,1,28,28]'")
@click.option(
    "--loss", default="cross-entropy",
    help="of the first output: cross-entropy, binary-cross-entropy, mean-squared or mean-absolute",
)  # fmt: skip
@click.option("--optimizer", type=click.Choice(_OPTIMIZERS), default="adamw", help="[default: adamw]")
@click.option("--rate", type=float, help="learning rate  [default: the optimizer's]")
@click.option("--momentum", type=float, default=0.0, help="of sgd and rmsprop  [default: 0]")
@click.option("--weight-decay", type=float, help="[default: the optimizer's]")
@click.option("--clip-norm", type=float, help="the largest norm of all gradients together")
@click.option("--trainable", default="", metavar="PATTERN", help="weights in whose name it is found  [default: all]")
@click.option("--target", help="as of compile  [default: this machine; of C source any processor]")
@click.option("--freestanding", is_flag=True, help="C source that needs no library")
def train_export_command(
    model: str,
    output: str,
    input_shapes: str | None,
    loss: str,
    optimizer: str,
    rate: float | None,
    momentum: float,
    weight_decay: float | None,
    clip_norm: float | None,
    trainable: str,
    target: str | None,
    freestanding: bool,
) -> None:
    """Write a training step of MODEL, with loss, optimizer and first values, that trains without Python."""
    require_model(model, "train-export")
    check_writable(output, model)
    # only when it runs: `tilewright --help` reads this module
    from tilewright.training import export_step, loss_of, network_of, training_step

    network = network_of(model, parse_shapes(input_shapes), trainable=trainable)
    value, target_of = loss_of(loss, network.results[0])
    rule = _optimizer(optimizer, rate, momentum, weight_decay, clip_norm)
    step = training_step(value, network.parameters, rule, outputs=network.results)
    files = export_step(step, network.values, output, target=target, freestanding=freestanding)
    count = sum(array.size for array in network.values.values())
    state = sum(array.nbytes for array in step.state.values())
    click.echo(
        f"{', '.join(map(str, files))}: trains {count:,} numbers of {len(network.values)} weights by {optimizer}"
    )
    click.echo(f"inputs  {', '.join(var.name for var in step.inputs)}; what is wanted is {target_of.name}")
    click.echo(f"weights {', '.join(network.values)}; {state:,} bytes of optimizer state")


def _optimizer(
    name: str, rate: float | None, momentum: float, weight_decay: float | None, clip_norm: float | None
) -> Optimizer:
    """The optimizer of the options. Raises `InputError` for an option that it does not have."""
    # only when it runs
    from tilewright import training

    rules = (training.SGD, training.Adam, training.AdamW, training.RMSProp, training.Lion, training.Adafactor)
    make: Any = dict(zip(_OPTIMIZERS, rules, strict=True))[name]
    options: dict[str, float] = {}
    if momentum:
        options["momentum"] = momentum
    if weight_decay is not None:
        options["weight_decay"] = weight_decay
    known = {field.name for field in dataclasses.fields(make)}
    for option in options:
        if option not in known:
            raise InputError(f"--optimizer {name} has no --{option.replace('_', '-')}")
    if rate is not None or name == "sgd":
        options["learning_rate"] = 0.01 if rate is None else rate
    made: Optimizer = make(**options)
    return made if clip_norm is None else training.ClippedByNorm(made, clip_norm)
