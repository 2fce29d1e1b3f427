"""The one table of converters of MXNet's operators, by their names in symbols."""

from tilewright.frontend.converters import Converters

converts = Converters("mxnet")
