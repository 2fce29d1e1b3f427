"""The one table of converters: TFLite's builtin operators by the schema's names, custom ones by their own."""

from tilewright.frontend.converters import Converters

converts = Converters("tflite")
