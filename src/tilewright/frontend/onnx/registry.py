"""The one table of converters of ONNX's operators, by domain, name and first opset."""

from tilewright.frontend.converters import Converters

#: The domain of onnxruntime's own operators.
MICROSOFT = "com.microsoft"

converts = Converters("onnx")
