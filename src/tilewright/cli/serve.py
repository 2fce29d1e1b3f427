"""`tilewright serve`: the compile service, which speaks SageMaker's compilation API (docs/service.md)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from tilewright.cli.options import bundle_option, parse_address
from tilewright.errors import InputError

_MIB = 2**20


class _ServeGroup(click.Group):
    """A group whose arguments are models where the first one is no command."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands:
            # the compile service does without
            from tilewright.cli.serve_models import serve_models_command

            return serve_models_command.name, serve_models_command, args
        return super().resolve_command(ctx, args)


@click.group("serve", cls=_ServeGroup)
def serve_command() -> None:
    """Serve models (`tilewright serve MODEL...`), or compile models for others (`run`, `key`, `work`)."""


_folder = click.option("--folder", default="tilewright-service", help="what the service keeps  [default: here]")
_database = click.option("--database", default="", metavar="URL", help="as SQLAlchemy has it  [default: a file]")
_share = click.option("--share", multiple=True, metavar="DIR", help="a folder that file:// names may be under")
_tracker = click.option("--tracker", default="", metavar="HOST:PORT", help="of a fleet whose devices jobs may name")
_s3_endpoint = click.option("--s3-endpoint", default="", metavar="URL", help="object storage other than Amazon's")


def _limits(command: Callable[..., None]) -> Callable[..., None]:
    """The options that workers and the service share, as one argument `limits`, values of settings."""

    @functools.wraps(command)
    def gathered(
        job_memory: int, job_seconds: float, model_memory: int, keep_days: float, grace: float, log: str, **others: Any
    ) -> None:
        limits = {
            "job_memory": job_memory * _MIB, "job_seconds": job_seconds, "model_bytes": model_memory * _MIB,
            "keep_days": keep_days, "grace_seconds": grace,
        }  # fmt: skip
        command(limits=limits, log=log, **others)

    found: Callable[..., None] = gathered
    at_least = click.FloatRange(min=0.0)
    for option in (
        click.option("--log", default="text", type=click.Choice(["text", "json"]), help="form of the log's lines"),
        click.option("--grace", default=20.0, type=at_least, help="seconds of running jobs when the service ends"),
        click.option("--keep-days", default=30.0, type=at_least, help="until models and jobs are removed; 0: never"),
        click.option("--model-memory", default=2048, type=click.IntRange(min=1), metavar="MIB", help="of a model"),
        click.option("--job-seconds", default=3600.0, type=click.FloatRange(min=1.0), help="most time of a job"),
        click.option("--job-memory", default=8192, type=click.IntRange(min=256), metavar="MIB", help="[default: 8192]"),
    ):
        found = option(found)
    return found


def _fleet(tracker: str, bundle: str | None) -> dict[str, Any]:
    """Settings of the fleet whose devices jobs may name."""
    return {
        "tracker": parse_address(tracker) if tracker else None,
        "bundle": None if bundle is None else Path(bundle).resolve(),
    }


@serve_command.command("run")
@_folder
@_database
@click.option("--host", default="127.0.0.1", help="address to listen at  [default: this machine alone]")
@click.option("--port", default=8080, type=click.IntRange(0, 65535), help="[default: 8080]")
@click.option("--workers", default=1, type=click.IntRange(min=0), help="jobs that run at a time  [default: 1]")
@_share
@_s3_endpoint
@_tracker
@bundle_option
@_limits
@click.option("--jobs-of-owner", default=100, type=click.IntRange(min=1), help="most that wait or run of one owner")
@click.option("--running-of-owner", default=0, type=click.IntRange(min=0), help="most that run  [default: no limit]")
@click.option("--jobs-a-day", default=0, type=click.IntRange(min=0), help="of one owner; 0: no limit")
@click.option("--cpu-seconds-a-day", default=0.0, type=click.FloatRange(min=0.0), help="of one owner; 0: no limit")
@click.option("--stored-memory", default=0, type=click.IntRange(min=0), metavar="MIB", help="of one owner; 0: no limit")
@click.option("--open", "without_keys", is_flag=True, help="the API below /v1 needs no keys; at 127.0.0.1 alone")
def run_command(
    folder: str,
    database: str,
    host: str,
    port: int,
    workers: int,
    share: tuple[str, ...],
    s3_endpoint: str,
    tracker: str,
    bundle: str | None,
    limits: dict[str, Any],
    log: str,
    jobs_of_owner: int,
    running_of_owner: int,
    jobs_a_day: int,
    cpu_seconds_a_day: float,
    stored_memory: int,
    without_keys: bool,
) -> None:
    """Serve until interrupted; jobs run in confined processes of this machine."""
    if without_keys and host not in ("127.0.0.1", "localhost", "::1"):
        raise InputError(f"--open is for this machine alone: leave out --host {host}, or make keys")
    # `tilewright --help` does without web servers and databases
    from tilewright.service.app import serve
    from tilewright.service.jobs.settings import Settings
    from tilewright.service.logs import start_logs

    settings = Settings(
        Path(folder), database, tuple(Path(one) for one in share), s3_endpoint, workers=workers,
        jobs_of_owner=jobs_of_owner, running_of_owner=running_of_owner, jobs_a_day=jobs_a_day,
        cpu_seconds_a_day=cpu_seconds_a_day, stored_bytes=stored_memory * _MIB, open=without_keys,
        **_fleet(tracker, bundle), **limits,
    )  # fmt: skip
    start_logs(log)
    click.echo(f"http://{host}:{port}: the endpoint of SageMaker's compilation jobs; keys: tilewright serve key OWNER")
    serve(settings, host, port)


@serve_command.command("key")
@click.argument("owner")
@_folder
@_database
def key_command(owner: str, folder: str, database: str) -> None:
    """Make a key for OWNER, whose jobs are seen with it alone."""
    from tilewright.service.app import open_store
    from tilewright.service.jobs.settings import Settings

    store = open_store(Settings(Path(folder), database))
    key, secret = store.add_key(owner)
    bearer = store.add_bearer_key(owner)
    click.echo(f"export AWS_ACCESS_KEY_ID={key} AWS_SECRET_ACCESS_KEY={secret} TILEWRIGHT_KEY={bearer}")


@serve_command.command("work")
@_folder
@_database
@_share
@_s3_endpoint
@_tracker
@bundle_option
@_limits
@click.option("--cluster", default="", metavar="ADDRESS", help="run them on a cluster of dask.distributed: tls://…")
def work_command(
    folder: str,
    database: str,
    share: tuple[str, ...],
    s3_endpoint: str,
    tracker: str,
    bundle: str | None,
    limits: dict[str, Any],
    log: str,
    cluster: str,
) -> None:
    """Run jobs of a service's database until interrupted: one more worker, here or on another machine."""
    if cluster and not bundle:
        raise InputError("--cluster needs --bundle: a user's certificate, as `tilewright rpc init` makes it")
    from tilewright.service.app import open_store, work
    from tilewright.service.jobs.settings import Settings
    from tilewright.service.logs import start_logs

    shared = tuple(Path(one).resolve() for one in share)
    settings = Settings(Path(folder), database, shared, s3_endpoint, workers=1, **_fleet(tracker, bundle), **limits)
    start_logs(log)
    if not cluster or bundle is None:
        return work(settings)
    from tilewright.autotvm.measure.cluster import Cluster
    from tilewright.service.jobs.cluster import dispatch

    dispatch(open_store(settings), replace(settings, folder=settings.folder.resolve()), Cluster(cluster, bundle))
