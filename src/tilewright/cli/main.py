"""The `tilewright` command: its verbs, and how an error becomes one message and an exit status."""

from __future__ import annotations

import errno
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import click

from tilewright.errors import InternalError, UserError
from tilewright.support.plugin_faults import plugin_fault
from tilewright.support.suggestion import suggestion

USER_ERROR_STATUS, INTERNAL_ERROR_STATUS, INTERRUPTED_STATUS, BROKEN_PIPE_STATUS = 2, 70, 130, 141

#: What the system may refuse anywhere, and what is nobody's fault here: no space, no permission, no memory, no files.
_ENVIRONMENT = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EROFS,
        errno.EACCES,
        errno.EPERM,
        errno.ENOMEM,
        errno.EMFILE,
        errno.ENFILE,
        errno.EIO,
    }
)

#: verb -> (module, function): a verb's module is imported only when the verb is used.
VERBS = {
    "compile": ("tilewright.cli.compile", "compile_command"),
    "run": ("tilewright.cli.run", "run_command"),
    "bench": ("tilewright.cli.bench", "bench_command"),
    "verify": ("tilewright.cli.verify", "verify_command"),
    "bisect": ("tilewright.cli.bisect", "bisect_command"),
    "inspect": ("tilewright.cli.inspect", "inspect_command"),
    "quantize": ("tilewright.cli.quantize", "quantize_command"),
    "train-export": ("tilewright.cli.train_export", "train_export_command"),
    "tune": ("tilewright.cli.tune", "tune_command"),
    "records": ("tilewright.cli.records", "records_command"),
    "profile": ("tilewright.cli.profile", "profile_command"),
    "keygen": ("tilewright.cli.sign", "keygen_command"),
    "sign": ("tilewright.cli.sign", "sign_command"),
    "rpc": ("tilewright.cli.rpc", "rpc_command"),
    "serve": ("tilewright.cli.serve", "serve_command"),
    "vta": ("tilewright.cli.vta", "vta_command"),
    "cache": ("tilewright.cli.cache", "cache_command"),
    "doctor": ("tilewright.cli.doctor", "doctor_command"),
}


class LazyGroup(click.Group):
    """A group whose commands are imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            if not ctx.resilient_parsing:  # which completes what is being typed
                ctx.fail(f"there is no verb {name!r}{suggestion(name, VERBS)}")
            return None
        module, function = VERBS[name]
        return getattr(__import__(module, fromlist=[function]), function)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="tilewright")
def cli() -> None:
    """Compile a trained model to fast code, run it, measure it, check it, and look inside."""


def guarded(action: Callable[[], Any]) -> int:
    """Run `action`, which may return a status; print an error as one message; the exit status."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            status = action()
        sys.stdout.flush()
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except UserError as error:
        click.echo(f"error: {error}", err=True)
        return USER_ERROR_STATUS
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return INTERRUPTED_STATUS
    except BrokenPipeError:
        # Whoever read our output (`| head`) has seen enough; the interpreter must not try to flush it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE_STATUS
    except MemoryError:
        click.echo("error: there is not enough memory for this", err=True)
        return USER_ERROR_STATUS
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _ENVIRONMENT:
            click.echo(f"error: {error.filename or 'the system'}: {error.strerror}", err=True)
            return USER_ERROR_STATUS
        blamed = None if isinstance(error, InternalError) else plugin_fault(error)
        if blamed is not None:
            click.echo(f"error: {blamed}", err=True)
            return USER_ERROR_STATUS
        limited = _address_space_text()
        if limited:
            click.echo(f"error: {type(error).__name__}: {error}: {limited}; allow more, or a smaller model", err=True)
            return USER_ERROR_STATUS
        traceback.print_exc()
        fault = error if isinstance(error, InternalError) else InternalError(f"{type(error).__name__}: {error}")
        click.echo(f"internal error: {fault}", err=True)
        return INTERNAL_ERROR_STATUS
    return status if isinstance(status, int) else 0


def _address_space_text() -> str:
    """A hint about an address space limit that leaves little memory; empty where there is none."""
    try:
        # only where something failed, and only where the system has such limits
        from tilewright.support.memory_limit import address_space_text
    except ImportError:
        return ""
    return address_space_text()


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning as one line, without the position in our source that raised it."""
    click.echo(f"warning: {str(message).removeprefix('tilewright: ')}", err=True)


def _open_standard_streams() -> None:
    """Open what was closed by whoever started us (`>&-`), so that no file of ours gets the number of the output."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")


def main() -> None:
    """Entry point of the `tilewright` command."""
    _open_standard_streams()
    sys.exit(guarded(lambda: cli.main(standalone_mode=False)))


if __name__ == "__main__":
    main()
