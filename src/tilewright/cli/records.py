"""`tilewright records merge|import|export`: files of what tuning found, put together and exchanged with other logs."""

from __future__ import annotations

from pathlib import Path

import click

from tilewright.cli.options import require_file
from tilewright.cli.outputs import check_writable


@click.group("records")
def records_command() -> None:
    """Put files of records together, and exchange them with logs of the classic stack."""


@records_command.command("merge")
@click.argument("out")
@click.argument("files", nargs=-1, required=True)
def merge_command(out: str, files: tuple[str, ...]) -> None:
    """Write the entries of FILES, each once, in the order of their times, to OUT."""
    # only when it runs: `tilewright records --help` reads this module
    from tilewright.records.file import merge_records, write_records

    for path in files:
        require_file(path)
    check_writable(out)
    entries = merge_records(files)
    write_records(out, entries)
    click.echo(f"{out}: {len(entries)} entries of {len({entry.task for entry in entries})} tasks")


@records_command.command("import")
@click.argument("out")
@click.argument("logs", nargs=-1, required=True)
def import_command(out: str, logs: tuple[str, ...]) -> None:
    """Add what LOGS of AutoTVM (0.2) or the auto-scheduler (v0.6) say to the records OUT."""
    # only when it runs: `tilewright records --help` reads this module
    from tilewright.autotvm.classic.exchange import read_log
    from tilewright.records.file import RecordFile

    for path in logs:
        require_file(path)
    entries = [entry for path in logs for entry in read_log(path)]
    with RecordFile(out) as file:
        known = {entry.to_line() for entry in file.entries}
        new = [entry for entry in entries if entry.to_line() not in known]
        for entry in new:
            file.append(entry)
    click.echo(f"{out}: {len(new)} entries more")


@records_command.command("export")
@click.argument("records")
@click.argument("log")
def export_command(records: str, log: str) -> None:
    """Write the trials of RECORDS as a log: lines of AutoTVM, and those of the auto-scheduler that came from one."""
    # only when it runs: `tilewright records --help` reads this module
    from tilewright.autotvm.classic.exchange import write_log
    from tilewright.records.file import read_records

    require_file(records)
    check_writable(log, records)
    click.echo(f"{Path(log)}: {write_log(log, read_records(records))} lines")
