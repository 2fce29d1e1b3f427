"""`tilewright cache`: what the disk cache holds, a bound for it, and emptying it (`support/cache.py`).

Only files that the cache wrote are listed, counted and removed, whatever else its directory holds.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

import click

from tilewright.cli.tables import print_table
from tilewright.errors import InputError
from tilewright.support.cache import KINDS, DiskCache, Entry, open_cache
from tilewright.support.knobs import parse_bytes

_MIB = 2**20


@click.group("cache", invoke_without_command=True)
@click.pass_context
def cache_command(context: click.Context) -> None:
    """List, bound or clear the cache of compiled code. Without a verb: how much of each kind it holds."""
    if context.invoked_subcommand is None:
        cache = _opened()
        rows = [_sum(kind, [e for e in cache.entries() if e.kind == kind]) for kind in KINDS]
        _print(("kind", "entries", "MiB", "last used"), [row for row in rows if row[1] != "0"])
        click.echo(f"{_state(cache)}, at most {cache.max_bytes / _MIB:.0f} MiB (TILEWRIGHT_CACHE_SIZE)")


@cache_command.command("list")
def list_command() -> None:
    """List every entry, the least recently used first, in the order of eviction."""
    cache = _opened()
    _print(
        ("kind", "key", "MiB", "last used"),
        [(entry.kind, entry.key, _size([entry]), _when([entry])) for entry in cache.entries()],
    )
    click.echo(_state(cache))


@cache_command.command("bound")
@click.argument("size")
def bound_command(size: str) -> None:
    """Remove the least recently used entries until the rest take at most SIZE, such as 512M.

    TILEWRIGHT_CACHE_SIZE is the bound that every compilation keeps.
    """
    try:
        most = parse_bytes(size)
    except ValueError:
        raise InputError(f"{size!r} is no size; write a number of bytes, or one such as 512M or 4G") from None
    cache = _opened()
    click.echo(f"{cache.shrink(most)} entries removed; {_state(cache)}")


@cache_command.command("clear")
@click.option("--kind", type=click.Choice(list(KINDS)), help="only entries of this kind")
def clear_command(kind: str | None) -> None:
    """Remove every entry. Files that the cache did not write stay."""
    cache = _opened()
    click.echo(f"{cache.clear(kind)} entries removed; {_state(cache)}")


def _opened() -> DiskCache:
    cache = open_cache()
    if cache.directory is None:
        raise InputError("there is no cache: it is switched off (TILEWRIGHT_CACHE=0), or its directory is not writable")
    return cache


def _state(cache: DiskCache) -> str:
    entries = cache.entries()
    return f"{cache.directory}: {len(entries)} entries, {_size(entries)} MiB"


def _sum(kind: str, entries: list[Entry]) -> tuple[str, ...]:
    return kind, str(len(entries)), _size(entries), _when(entries)


def _size(entries: Iterable[Entry]) -> str:
    return f"{sum(entry.bytes for entry in entries) / _MIB:.1f}"


def _when(entries: Iterable[Entry]) -> str:
    last = max((entry.used for entry in entries), default=0.0)
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(last))


def _print(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(columns, *rows)]
    plain = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in (columns, *rows)]
    print_table(columns, rows, plain if rows else ())
