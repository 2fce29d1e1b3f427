"""The one table of converters of Caffe's layers, by their type."""

from tilewright.frontend.converters import Converters

converts = Converters("caffe")
