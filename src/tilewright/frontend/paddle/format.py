"""Paddle among the formats: a program with its parameters beside it, or a pair of both."""

from tilewright.frontend.paddle import converts, from_paddle
from tilewright.frontend.paddle.load import is_program, parameters_beside
from tilewright.frontend.two_files import PairFrontend

PADDLE = PairFrontend(
    "paddle", "a Paddle program", "a tuple of a Paddle program and its parameters", is_program, from_paddle,
    parameters_beside, {"operators": converts},
)  # fmt: skip
