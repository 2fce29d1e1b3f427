"""Paddle programs to Relay: PIR and its parameters, or a program of older versions; one converter an operator."""

from tilewright.frontend.paddle.convert import from_paddle
from tilewright.frontend.paddle.node import converts

__all__ = ["converts", "from_paddle"]
