"""Core ML models to Relay, ML programs (MIL) and neural networks: one converter function an operation or layer."""

from tilewright.frontend.coreml.convert import from_coreml
from tilewright.frontend.coreml.network_node import layers
from tilewright.frontend.coreml.node import converts

__all__ = ["converts", "from_coreml", "layers"]
