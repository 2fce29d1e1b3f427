"""The command as in the tests of `cli`."""

from tests.cli.conftest import quiet_machine, tilewright

__all__ = ["quiet_machine", "tilewright"]
