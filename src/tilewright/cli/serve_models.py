"""`tilewright serve MODEL…`: serve models over the Open Inference Protocol (docs/serving.md)."""

from __future__ import annotations

import ipaddress

import click

_MIB = 2**20


@click.command("MODEL...")
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
@click.option("--host", default="127.0.0.1", help="address to listen at  [default: this machine alone]")
@click.option("--port", default=8000, type=click.IntRange(0, 65535), help="of HTTP  [default: 8000]")
@click.option("--grpc-port", default=8001, type=click.IntRange(0, 65535), help="of gRPC  [default: 8001]")
@click.option("--no-grpc", is_flag=True, help="HTTP alone")
@click.option("--max-batch", default=32, type=click.IntRange(1, 1 << 20), help="most rows of a batch  [default: 32]")
@click.option("--max-delay", default=0.0, type=click.FloatRange(0, 60000), metavar="MS", help="a batch waits so long")
@click.option("--fixed-batch", is_flag=True, help="the first dimension of models of fixed sizes is a batch")
@click.option("--symbolic-batch", is_flag=True, help="compile models that are no artifacts for any batch")
@click.option("--instances", default=1, type=click.IntRange(1, 256), help="copies of each model  [default: 1]")
@click.option("--threads", type=click.IntRange(1, 256), help="of each copy  [default: as many as processors]")
@click.option("--queue", default=512, type=click.IntRange(1, 1 << 20), help="requests of a model that may wait")
@click.option("--no-warm-up", is_flag=True, help="take requests before a first run")
@click.option(
    "--max-body", default=64, type=click.IntRange(1, 1 << 16), metavar="MIB", help="of a request  [default: 64]"
)
@click.option("--max-connections", default=1024, type=click.IntRange(1, 1 << 16), help="[default: 1024]")
@click.option("--request-seconds", default=60.0, type=click.FloatRange(min=0.001), help="most that a request waits")
@click.option("--grace", default=30.0, type=click.FloatRange(min=0), metavar="S", help="for requests after a signal")
@click.option("--trust-clients", is_flag=True, help="load models and share memory for other machines too")
def serve_models_command(
    models: tuple[str, ...],
    host: str,
    port: int,
    grpc_port: int,
    no_grpc: bool,
    max_batch: int,
    max_delay: float,
    fixed_batch: bool,
    symbolic_batch: bool,
    instances: int,
    threads: int | None,
    queue: int,
    no_warm_up: bool,
    max_body: int,
    max_connections: int,
    request_seconds: float,
    grace: float,
    trust_clients: bool,
) -> None:
    """Serve models until interrupted: artifacts, model files, NAME=FILE, folders of NAME/VERSION/model.tw."""
    # `tilewright --help` does without servers
    from tilewright.serving.models.repository import Repository
    from tilewright.serving.models.settings import Limits, ModelSettings
    from tilewright.serving.server import Address, Server, serve

    settings = ModelSettings(
        max_batch, max_delay / 1000, fixed_batch, instances, threads, queue, not no_warm_up, symbolic_batch
    )
    limits = Limits(
        body=max_body * _MIB, buffered=max(16 * max_body, 1024) * _MIB, connections=max_connections,
        request_seconds=request_seconds, grace_seconds=grace, trusted=trust_clients or _is_loopback(host),
    )  # fmt: skip

    def ready(server: Server) -> None:
        for row in server.core.repository.index():
            click.echo(f"{row['name']} {row['version'] or '-'}: {row['state']} {row['reason']}".rstrip())
        beside = "" if server.grpc_port is None else f", gRPC at {host}:{server.grpc_port}"
        click.echo(f"serving at http://{host}:{server.port}/v2{beside}")

    serve(lambda: Repository(models, settings), limits, Address(host, port, None if no_grpc else grpc_port), ready)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
