"""Darknet networks to Relay: a cfg file and its weights, one converter function a kind of layer."""

from tilewright.frontend.darknet.convert import from_darknet, initial_states
from tilewright.frontend.darknet.node import converts

__all__ = ["converts", "from_darknet", "initial_states"]
