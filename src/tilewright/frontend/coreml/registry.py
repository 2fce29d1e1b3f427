"""The one table of converters of the operations of ML programs (MIL), by their type."""

from tilewright.frontend.converters import Converters

converts = Converters("coreml")
