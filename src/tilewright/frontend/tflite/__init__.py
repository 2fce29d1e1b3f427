"""TFLite models to Relay: one converter function a builtin operator, grouped in files by family."""

from tilewright.frontend.tflite.convert import from_tflite, initial_states
from tilewright.frontend.tflite.model import is_tflite
from tilewright.frontend.tflite.node import converts

__all__ = ["converts", "from_tflite", "initial_states", "is_tflite"]
