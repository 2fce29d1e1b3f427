"""The one table of converters of Caffe2's operators, by their type."""

from tilewright.frontend.converters import Converters

converts = Converters("caffe2")
