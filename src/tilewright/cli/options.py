"""Options and argument types that several verbs share, and how a MODEL argument becomes an executable."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.errors import InputError, ModelError, ShapeError, TargetError
from tilewright.runtime.artifact import is_artifact
from tilewright.runtime.model import Model
from tilewright.runtime.sealed.container import is_sealed
from tilewright.support import trace

if TYPE_CHECKING:
    from tilewright.board import BoardDevice
    from tilewright.driver.build_source import Exported
    from tilewright.target import Target

_ADDRESS = re.compile(r"(?P<host>.+):(?P<port>\d{1,5})")
_SHAPE = re.compile(r"\s*(?P<name>[^\[\]]+?)\s*:\s*\[(?P<dims>[^\[\]]*)\]\s*(?:,|$)")


class Number(click.FloatRange):
    """A finite number of an option, of the bounds of `click.FloatRange`: no bound holds for NaN."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; a usage error for another."""
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value} is no finite number.", param, ctx)
        return found


#: At least zero, as bounds are; and more than that, as times are.
BOUND, SECONDS = Number(min=0), Number(min=0, min_open=True)


class Share(click.ParamType[float]):
    """A share of one, as a number or in percent: `0.005`, `0.5%`."""

    name = "share"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; a usage error for another text."""
        text = str(value).strip()
        try:
            found = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
        except ValueError:
            found = -1.0
        if not 0.0 <= found < 1.0:
            self.fail(f"{text!r} is no share; write 0.5% or 0.005", param, ctx)
        return found


def _not_here(target: Target) -> str:
    """The message for a model that must run on a machine that has no device of the target, or the wrong processor."""
    # only when it runs: `tilewright --help` reads this module
    from tilewright.backend import backend_of
    from tilewright.target import Target

    backend = backend_of(target)
    why = backend.obstacle() or f"this machine ({Target.host()}) cannot run code for {target}"
    stage = (backend.code_stages() or ("tir",))[-1]
    return (
        f"{why}. Write the model with `tilewright compile -o`, run it where one is by `tilewright rpc run`, or "
        f"look at its code with `tilewright inspect --stage {stage}`"
    )


def is_web(target: str | None) -> bool:
    """True if models for a target are written as files for the web."""
    return _has_backend(target, "wasm")


def is_webgpu(target: str | None) -> bool:
    """True for a target of WebGPU, whose models run in this process or in a browser."""
    return _has_backend(target, "webgpu")


def _has_backend(target: str | None, name: str) -> bool:
    if target is None or name not in target:
        return False
    # an artifact of this machine needs no targets yet
    from tilewright.target import Target

    return Target(target).backend == name


def parse_shapes(text: str | None) -> dict[str, tuple[int, ...]] | None:
    """`"x:[1,3,224,224],y:[1]"` as a dict; names may hold colons. Raises ShapeError with the expected form."""
    if not text:
        return None
    shapes: dict[str, tuple[int, ...]] = {}
    position = 0
    while position < len(text):
        found = _SHAPE.match(text, position)
        dims = [d.strip() for d in found["dims"].split(",")] if found and found["dims"].strip() else []
        if found is None or not all(d.isdigit() for d in dims):
            raise ShapeError(f'--input-shapes {text!r} is not understood; write it as "x:[1,3,224,224],y:[1]"')
        shapes[found["name"]] = tuple(int(d) for d in dims)
        position = found.end()
    return shapes


def parse_address(text: str) -> tuple[str, int]:
    """`"HOST:PORT"` in parts. Raises `InputError`."""
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise InputError(f"{text!r} is no address; write HOST:PORT")
    return found["host"].strip("[]"), int(found["port"])


def bundle_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--bundle`: who we are in a fleet."""
    help_text = "our certificate: a folder made by `tilewright rpc init`"
    return click.option("--bundle", metavar="DIR", help=help_text)(command)


@dataclass(frozen=True)
class SourceOptions:
    """The options of `compile` for C source; `seal` are the keys that sign and encrypt its weights."""

    exact_rounding: bool
    freestanding: bool
    oblivious: bool
    seal: tuple[str, str] | None
    ram_limit: int | None = None
    rom_limit: int | None = None
    states: tuple[str, ...] = ()

    @property
    def state_pairs(self) -> dict[str, str]:
        """The pairs of `--state IN=OUT`. Raises `InputError`."""
        parts = [text.partition("=") for text in self.states]
        for text, (name, _, result) in zip(self.states, parts, strict=True):
            if not name or not result:
                raise InputError(
                    f"--state {text}: write INPUT=OUTPUT, the input of a step and the output that it becomes"
                )
        return {name: result for name, _, result in parts}


@dataclass(frozen=True)
class ModelOptions:
    """The options of every verb that compiles a model, as they were given."""

    target: str | None
    shapes: str | None
    threads: int | None
    no_cache: bool
    records: str | None = None
    #: Dimensions that the model leaves open stay symbolic; `shapes` are those of the runs.
    symbolic: bool = False
    specialize: int = 0
    signature: str | None = None
    outputs: str | None = None
    precision: str | None = None
    board: str | None = None
    enclave: str | None = None
    #: Where code for the web runs.
    engine: str | None = None
    #: How `board` is reached where it is not under qemu here: a tracker, a server and our certificate.
    tracker: str | None = None
    device: str | None = None
    bundle: str | None = None

    @property
    def target_text(self) -> str:
        """The target as it is spelled, with the cores that `--threads` sets."""
        spelled = self.target or "cpu"
        return f"{spelled} -cores={self.threads}" if self.threads and "-cores=" not in spelled else spelled

    @property
    def chosen(self) -> list[str] | None:
        """The names of `--outputs`."""
        return None if self.outputs is None else [name.strip() for name in self.outputs.split(",")]

    def refuse_choice(self, verb: str) -> None:
        """Raise InputError where an entry or results are chosen, of what `verb` compares as a whole."""
        for option, value in (("--signature", self.signature), ("--outputs", self.outputs)):
            if value is not None:
                raise InputError(f"`tilewright {verb}` compares the whole model with an engine; leave out {option}")

    def open(
        self,
        path: str,
        executor: str = "auto",
        fixed: Mapping[str, tuple[int, ...]] | None = None,
        check: bool = False,
        runs: bool = True,
        exact_rounding: bool = False,
    ) -> Model:
        """The executable of a saved artifact, or of a model compiled (or found in the cache) for `executor` now.

        `fixed` has shapes of inputs beside those of `--input-shapes`. With `check`, which only a model can have, not an
        artifact, indices are checked while it runs; `exact_rounding`, likewise, is that of `tilewright.compile`. Raises
        `TargetError` for a target of another machine unless the model is only to be written (not `runs`).
        """
        require_file(path)
        if is_artifact(path):
            # only when it runs: a saved model needs no compiler, and a compiler no reader of artifacts
            from tilewright.load import load

            self.refuse_for_artifact(path, exact_rounding)
            return load(path, threads=self.threads, check=True)
        from tilewright.cli.progress import progress

        if (self.tracker or self.device) and not self.board:
            raise InputError("--tracker and --device lend boards; add --board NAME (others: tilewright rpc run)")
        in_engine = is_web(self.target) or (self.engine is not None and is_webgpu(self.target))
        if self.engine and not in_engine:
            raise InputError("--engine runs models for the web; add --target wasm or webgpu")
        if self.board or self.enclave:
            return self._open_apart(path, fixed or {}, exact_rounding)
        with trace.span("import the compiler"):
            from tilewright.backend import backend_of
            from tilewright.compile import compile
            from tilewright.request import FLOAT32
            from tilewright.target import Target

        if runs and self.target and not in_engine and not backend_of(Target(self.target)).is_here:
            raise TargetError(_not_here(Target(self.target)))
        shapes = {} if self.symbolic else {**(fixed or {}), **(parse_shapes(self.shapes) or {})}
        with progress():
            made = compile(
                path,
                target=self.target or "cpu",
                input_shapes=shapes or None,
                signature=self.signature,
                outputs=self.chosen,
                threads=self.threads,
                cache=not self.no_cache,
                executor=executor,
                check=check,
                records=self.records,
                exact_rounding=exact_rounding,
                precision=self.precision or FLOAT32,
                specialize=self.specialize,
            )
        if in_engine and runs:
            return self._in_engine(made)
        return made

    def _in_engine(self, made: Model) -> Model:
        """A model for the web in its engine."""
        # only for these: a model for the web is no part of others
        from tilewright.runtime.web.gpu_model import WebGpuModel
        from tilewright.runtime.web.model import ENGINES, WebModel

        web = made if isinstance(made, WebModel) else WebGpuModel.of(made)
        web.use(self.engine or ENGINES[0], self.threads or 1)
        return web

    def _open_apart(self, path: str, fixed: Mapping[str, tuple[int, ...]], exact_rounding: bool) -> Model:
        """The model as a program of its own, on a board or in an enclave."""
        # only for these
        from tilewright.cli.board import open_on_board
        from tilewright.cli.enclave import open_in_enclave

        if self.precision is not None:
            raise InputError("C source has products of the model's own types alone; leave out --precision")
        if self.board and self.enclave:
            raise InputError("a model runs on a board or in an enclave; leave out --board or --enclave")
        compiled = {
            "input_shapes": {**fixed, **(parse_shapes(self.shapes) or {})} or None,
            "exact_rounding": exact_rounding,
            "signature": self.signature,
            "outputs": self.chosen,
        }
        if self.board:
            return open_on_board(path, self.board, self.target, self.device_of_board(), **compiled)
        return open_in_enclave(path, self.enclave or "", self.target, **compiled)

    def device_of_board(self) -> BoardDevice | None:
        """The board elsewhere that was named, until the command ends; None for one under qemu here."""
        return lent_board(self.board or "", self.tracker, self.device, self.bundle)

    def export_source(self, path: str, output: str, as_source: SourceOptions) -> Exported:
        """Write a model as C source."""
        require_file(path)
        if is_artifact(path):
            raise InputError(f"{path} is a compiled artifact, which has no C source; name the model itself")
        if self.precision is not None:
            raise InputError("C source has products of the model's own types alone; leave out --precision")
        from tilewright.cli.progress import progress
        from tilewright.compile import export_source

        with progress():
            return export_source(
                path,
                output,
                target=self.target or "c",
                input_shapes=parse_shapes(self.shapes),
                signature=self.signature,
                outputs=self.chosen,
                exact_rounding=as_source.exact_rounding,
                freestanding=as_source.freestanding,
                oblivious=as_source.oblivious,
                seal=as_source.seal,
                ram_limit=as_source.ram_limit,
                rom_limit=as_source.rom_limit,
                states=as_source.state_pairs,
                records=self.records,
            )

    def export_image(self, paths: Sequence[str], output: str, as_source: SourceOptions) -> Exported:
        """Write several models as one file of C, each by the name of its file."""
        for path in paths:
            require_model(path, "write it as C source")
        for option, value in (
            ("--input-shapes", self.shapes),
            ("--signature", self.signature),
            ("--outputs", self.outputs),
        ):
            if value:
                raise InputError(f"{option} is for one model; leave it out, or compile the models one by one")
        names = {Path(path).stem: path for path in paths}
        if len(names) < len(paths):
            raise InputError("two of the models have one file name, which becomes their name in C")
        from tilewright.cli.progress import progress
        from tilewright.compile import export_image

        with progress():
            return export_image(
                names,
                output,
                target=self.target or "c",
                freestanding=as_source.freestanding,
                ram_limit=as_source.ram_limit,
                rom_limit=as_source.rom_limit,
            )

    def refuse_for_artifact(self, path: str, exact_rounding: bool = False) -> None:
        """Raise InputError when an option was given that only a model to compile can follow."""
        given = {
            "--target": self.target,
            "--input-shapes": self.shapes,
            "--records": self.records,
            "--precision": self.precision,
            "--exact-rounding": exact_rounding,
            "--signature": self.signature,
            "--outputs": self.outputs,
        }
        for option, value in given.items():
            if value:
                raise InputError(
                    f"{path} is a compiled artifact, whose target, shapes and kernels are fixed; leave out {option}, "
                    "or name the model itself"
                )


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add to a verb the options of `ModelOptions`; it receives them as the argument `options`."""

    @functools.wraps(command)
    def gathered(
        target: str | None,
        shapes: str | None,
        threads: int | None,
        no_cache: bool,
        records: str | None,
        signature: str | None,
        outputs: str | None,
        precision: str | None,
        board: str | None,
        enclave: str | None,
        engine: str | None,
        **rest: Any,
    ) -> Any:
        given = ModelOptions(
            target, shapes, threads, no_cache, records, signature=signature, outputs=outputs, precision=precision,
            board=board, enclave=enclave, engine=engine,
        )  # fmt: skip
        return command(options=given, **rest)

    decorated: Callable[..., Any] = gathered
    for option in reversed(
        (
            click.option("--target", help="what to compile for  [default: cpu]"),
            click.option(
                "--input-shapes",
                "shapes",
                help='fixes dynamic dimensions by name or position, e.g. "x:[1,3,224,224],1:[1,8]"',
            ),
            click.option("--signature", metavar="NAME", help="the entry of a model that has several"),
            click.option("--outputs", metavar="NAMES", help="results that are wanted, of the model or nodes within it"),
            click.option(
                "--threads", type=click.IntRange(min=1), help="worker threads  [default: what the process may use]"
            ),
            click.option(
                "--precision",
                metavar="NAME",
                help="of operands of products: bf16, f16, or tf32-like (the sum of two bfloat16)",
            ),
            click.option("--board", metavar="NAME", help="a board under qemu that runs it, e.g. mps2-an386, virt"),
            click.option(
                "--enclave", metavar="KIND", help="run it as a program that can only compute: seccomp or wasm"
            ),
            click.option(
                "--engine",
                metavar="NAME",
                help="runs --target wasm: wasmtime (default), node, chromium; webgpu: chromium",
            ),
            click.option("--records", metavar="FILE", help='schedules from what `tilewright tune` found, or "tophub"'),
            click.option("--no-cache", is_flag=True, help="compile afresh and do not write to the cache"),
        )
    ):
        decorated = option(decorated)
    return decorated


def lent_board(board: str, tracker: str | None, device: str | None, bundle: str | None) -> BoardDevice | None:
    """The board of a tracker's fleet, or of a server, until the command at hand ends; None where neither is named."""
    if tracker is None and device is None:
        if bundle is not None:
            raise InputError("--bundle is our certificate in a fleet; add --tracker HOST:PORT or --device HOST:PORT")
        return None
    # only for boards elsewhere
    from tilewright.rpc.remote_board import borrowed_board

    at = {name: parse_address(text) for name, text in (("tracker", tracker), ("device", device)) if text is not None}
    borrowed = borrowed_board(board, at.get("tracker"), at.get("device"), bundle)
    return click.get_current_context().with_resource(borrowed)


def lent_board_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--tracker`, `--device` and `--bundle` of verbs that run a model; to be given after `model_options`."""

    @functools.wraps(command)
    def gathered(
        tracker: str | None, device: str | None, bundle: str | None, options: ModelOptions, **rest: Any
    ) -> Any:
        return command(options=replace(options, tracker=tracker, device=device, bundle=bundle), **rest)

    reached = click.option("--device", metavar="HOST:PORT", help="the server of --board, where there is no tracker")
    lent = click.option("--tracker", metavar="HOST:PORT", help="borrow --board from this tracker's fleet")
    return lent(reached(bundle_option(gathered)))


def symbolic_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--open` and `--specialize` of the verbs that run a model over and over; to be given after `model_options`."""

    @functools.wraps(command)
    def gathered(symbolic: bool, specialize: int, options: ModelOptions, **rest: Any) -> Any:
        if specialize and not symbolic:
            raise InputError("--specialize is for models with symbolic dimensions; add --open")
        return command(options=replace(options, symbolic=symbolic, specialize=specialize), **rest)

    several = click.option(
        "--specialize", default=0, metavar="N", type=click.IntRange(min=0),
        help="with --open: compile for up to N sizes of their own, in the background",
    )  # fmt: skip
    keep = click.option(
        "--open", "--symbolic", "symbolic", is_flag=True,
        help="keep symbolic dimensions symbolic; --input-shapes and --input say the sizes of the runs",
    )  # fmt: skip
    return keep(several(gathered))


#: `--check` of the verbs whose result does not depend on how fast the model runs.
check_option = click.option(
    "--check", is_flag=True, help="end with an error where an index (of a Gather, a Scatter) is out of range"
)

#: `--exact-rounding` of the same verbs.
exact_rounding_option = click.option(
    "--exact-rounding", is_flag=True, help="round float16 and bfloat16 after each operator, as engines without fusion"
)


def require_file(path: str) -> None:
    """Raise ModelError when there is nothing at `path`, or a directory that is no model."""
    if Path(path).is_dir():
        # only for folders: a user of a file need not wait for the formats
        from tilewright.frontend.formats.table import is_model_folder, kinds_of_models

        if not is_model_folder(Path(path)):
            raise ModelError(f"{path} is a directory; name the path of {kinds_of_models()} or of a compiled artifact")
    if not Path(path).exists():
        raise ModelError(f"{path}: there is no such file")
    if is_sealed(path):
        raise ModelError(f"{path} is sealed: load it in Python, by tilewright.load(PATH, verify=KEY, decrypt=KEY)")
    if not Path(path).is_dir() and not Path(path).is_file():
        # only for these
        from tilewright.frontend.source import NO_FILE

        raise ModelError(f"cannot read {path}: {NO_FILE}")


def require_model(path: str, what_for: str) -> None:
    """Raise InputError when `path` is a compiled artifact, which other engines cannot read."""
    require_file(path)
    if is_artifact(path):
        raise InputError(
            f"{path} is a compiled artifact, which other engines cannot read; name the ONNX model to {what_for}"
        )
