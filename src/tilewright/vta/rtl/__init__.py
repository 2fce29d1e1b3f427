"""The accelerator as RTL, made by Amaranth from the table of its instructions: `pip install 'tilewright[rtl]'`."""

from tilewright.errors import EnvironmentError_

try:
    import amaranth  # noqa: F401
except ImportError:
    raise EnvironmentError_("RTL needs the package amaranth: pip install 'tilewright[rtl]'") from None
