"""The one table of converters of Darknet's layers, by the name of their section in the cfg."""

from tilewright.frontend.converters import Converters

converts = Converters("darknet")
