"""The table of converters: TensorFlow's operators to functions of one `TfNode`.

A converter returns the value of the node's output, or a list of them. A value is a Relay expression; `Dims` where it is
a shape, of which extents may be open; or `Items` where it is a list of tensors.
"""

from tilewright.frontend.converters import Converters

converts = Converters("tensorflow")
