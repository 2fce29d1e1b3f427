"""`tilewright tune MODEL`: find better schedules for the kernels of a model by measuring, and keep what was found."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli.options import SECONDS, bundle_option, lent_board, parse_address, parse_shapes, require_model
from tilewright.cli.outputs import check_writable, write_file
from tilewright.cli.tune_report import tune_page
from tilewright.cli.tune_view import make_view
from tilewright.errors import InputError

if TYPE_CHECKING:
    from tilewright.autotvm.network.options import TuneResult
    from tilewright.board import BoardDevice

#: Minutes, where nobody says how long.
_MINUTES = 5.0
#: Configurations that a device of a fleet has in a batch, so that asking for it takes little of the time.
_BATCH_A_DEVICE = 4


def _elsewhere_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say on which machines to measure, as one argument `elsewhere`."""

    @functools.wraps(command)
    def reported(
        tracker: str | None,
        cluster: str | None,
        key: str,
        devices: int,
        priority: int,
        bundle: str | None,
        **others: Any,
    ) -> None:
        command(elsewhere=_Elsewhere(tracker, cluster, key, devices, priority, bundle), **others)

    found: Callable[..., None] = reported
    for option in (
        bundle_option,
        click.option("--priority", default=0, show_default=True, help="with --tracker: of our requests, up to 10"),
        click.option("--devices", default=4, show_default=True, help="with --tracker: how many of them at a time"),
        click.option("--key", default="", help="with --tracker: which kind of device"),
        click.option(
            "--cluster", metavar="tls://HOST:PORT", help="build and measure on the workers of a cluster of dask"
        ),
        click.option("--tracker", metavar="HOST:PORT", help="measure on the devices of this tracker's fleet"),
    ):
        found = option(found)
    return found


@click.command("tune")
@click.argument("model")
@click.option("--minutes", type=SECONDS, help="time to spend  [default: 5, or no limit]")
@click.option("--trials", type=click.IntRange(min=1), help="configurations to measure at most")
@click.option("--records", metavar="FILE", help="where to keep what is learned  [default: MODEL.records.jsonl]")
@click.option("--report", metavar="FILE.html", help="also write a page about it")
@click.option("--explorer", default="auto", show_default=True, help="auto, xgb, droplet, genetic, random or grid")
@click.option("--model", "cost_model", default="knobs", show_default=True, help="knobs, trees, gru or analytic")
@click.option("--seed", default=0, show_default=True, help="of what the explorer draws")
@click.option("--json", "json_path", metavar="FILE", help="also write the outcome to this file")
@click.option("--target", help="what to tune for  [default: cpu]")
@click.option("--input-shapes", "shapes", help='fixes dynamic dimensions, e.g. "x:[1,3,224,224]"')
@click.option("--threads", type=click.IntRange(min=1), help="tune for so many worker threads")
@click.option(
    "--board", metavar="NAME", help="count instructions on this board instead of time, under qemu or of a tracker"
)
@click.option("--no-cache", is_flag=True, help="as of all verbs that compile; what is measured is never from the cache")
@_elsewhere_options
def tune_command(
    model: str,
    minutes: float | None,
    trials: int | None,
    records: str | None,
    report: str | None,
    explorer: str,
    cost_model: str,
    seed: int,
    json_path: str | None,
    target: str | None,
    shapes: str | None,
    threads: int | None,
    no_cache: bool,
    board: str | None,
    elsewhere: _Elsewhere,
) -> None:
    """Measure schedules for the kernels of MODEL, and keep the best in a file of records.

    With --tracker they are built here and measured on the devices of a fleet, with --cluster both is done by the
    workers of a cluster; --target names the processor of these.

    `tilewright compile MODEL --records FILE` compiles with them. A run can be ended with Ctrl-C and taken up again with
    the same file. At the end the tuned model is compared with the default one; what does not pay is rolled back.
    """
    require_model(model, "tune")
    records = records or f"{model}.records.jsonl"
    if board is not None:
        given = {"--minutes": minutes, "--report": report, "--threads": threads, "--cluster": elsewhere.cluster}
        for option, value in given.items():
            if value is not None:
                raise InputError(f"{option} is not for --board, which counts every configuration, or --trials of them")
        device = lent_board(board, elsewhere.tracker, None, elsewhere.bundle)
        _tune_on_board(model, parse_shapes(shapes), target, board, device, records, trials, json_path)
        return
    for path in filter(None, (report, json_path)):
        check_writable(path, model)
    if minutes is None and trials is None:
        minutes = _MINUTES
    spelled = f"{target or 'cpu'}{f' -cores={threads}' if threads else ''}"
    seconds = None if minutes is None else 60 * minutes
    options = {"seconds": seconds, "trials": trials, "explorer": explorer, "model": cost_model, "seed": seed}
    try:
        result = _tuned(model, parse_shapes(shapes), spelled, options, records, elsewhere)
    except KeyboardInterrupt:
        click.echo(f"what was measured is in {records}: the same command goes on from there", err=True)
        raise
    _write(result, model, records, report, json_path)


def _tune_on_board(
    model: str,
    shapes: Any,
    target_name: str | None,
    board_name: str,
    device: BoardDevice | None,
    records: str,
    trials: int | None,
    json_path: str | None,
) -> None:
    """Count configurations on a board, and print those of each kernel."""
    # only for boards
    from tilewright.autotvm.network.tune_on_board import tune_on_board
    from tilewright.board import board_named
    from tilewright.board.image import require_tools
    from tilewright.frontend.formats.import_model import import_model
    from tilewright.target import Target

    board = board_named(board_name)
    if device is None:
        require_tools(board)
    target = Target(target_name or f"c -mcpu={board.cpu}")
    board.flags(getattr(target, "cpu", ""))
    tell = partial(click.echo, err=True)
    result = tune_on_board(import_model(model, shapes), board, target, records, tell, trials, device)
    for task in result.tasks:
        config = ", ".join(f"{name} {value}" for name, value in task.config.items())
        click.echo(f"{task.default:12,} -> {task.best:12,}  {task.tried:3} tried  {task.name} ({config})")
    click.echo(f"{result.before:,} instructions on {board.name}, tuned {result.after:,}; records in {records}")
    if json_path:
        write_file(json_path, lambda path: path.write_text(json.dumps(asdict(result), indent=2) + "\n"))


def _tuned(
    model: str, shapes: Any, target: str, options: dict[str, Any], records: str, elsewhere: _Elsewhere
) -> TuneResult:
    """Tune on the machine of the options; a fleet gets larger batches."""
    # only when it runs: `tilewright --help` reads this module
    from tilewright.autotvm.network.tune import TuneOptions, tune
    from tilewright.frontend.formats.import_model import import_model

    mod = import_model(model, shapes)
    with elsewhere.site(target) as site, make_view(model, records) as view:
        batch = TuneOptions.batch if site is None else max(TuneOptions.batch, _BATCH_A_DEVICE * elsewhere.devices)
        return tune(mod, target, TuneOptions(batch=batch, **options), records, view, site)


def _write(result: TuneResult, model: str, records: str, report: str | None, json_path: str | None) -> None:
    """The page and the figures, where they are wanted."""
    if report:
        page = tune_page(model, result)
        write_file(report, lambda path: path.write_text(page, encoding="utf-8"))
    if json_path:
        verdict, found = result.verdict, result.verdict.comparison
        outcome = {
            "model": model, "target": str(result.target), "trials": result.trials, "seconds": result.seconds,
            "default_ms": verdict.default_seconds * 1e3, "tuned_ms": verdict.tuned_seconds * 1e3,
            "kept": len(verdict.kept), "rolled_back": len(verdict.rolled_back), "records": records,
            "comparison": None if found is None else {"faster": found.faster, **asdict(found)},
        }  # fmt: skip
        write_file(json_path, lambda path: path.write_text(json.dumps(outcome, indent=2) + "\n"))


@dataclass(frozen=True)
class _Elsewhere:
    """The requested position of measurement: a tracker, a cluster, or with neither this machine."""

    tracker: str | None
    cluster: str | None
    key: str
    devices: int
    priority: int
    bundle: str | None

    @contextmanager
    def site(self, target: str) -> Iterator[Any]:
        """The position, once it is known that it runs code for `target`; None for this machine."""
        if self.tracker is not None and self.cluster is not None:
            raise InputError("--tracker and --cluster exclude each other")
        if self.tracker is not None:
            yield self._fleet(self.tracker, target)
        elif self.cluster is not None:
            # only with a cluster
            from tilewright.autotvm.measure.cluster import Cluster
            from tilewright.autotvm.network.site import OnCluster
            from tilewright.target import Target

            if self.bundle is None:
                raise InputError("add --bundle DIR: clusters authenticate their clients by TLS certificates")
            cluster = Cluster(self.cluster, self.bundle)
            with cluster.client() as client:
                yield OnCluster(cluster, client, Target(target))
        elif self.key or self.bundle:
            raise InputError("--key and --bundle select devices of a fleet; add --tracker HOST:PORT")
        else:
            yield None

    def _fleet(self, tracker: str, target: str) -> Any:
        if not self.key:
            raise InputError("add --key, the kind of device to tune for: `tilewright rpc query` lists them")
        # only with a fleet
        from tilewright.autotvm.measure.fleet import Fleet
        from tilewright.autotvm.network.site import OnFleet
        from tilewright.rpc.tracker_client import connect_tracker
        from tilewright.target import Target

        session = connect_tracker(*parse_address(tracker), bundle=self.bundle)
        fleet = Fleet(session, self.key, self.devices, priority=self.priority)
        fleet.check(Target(target))
        return OnFleet(fleet)
