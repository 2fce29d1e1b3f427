"""The one table of converters of Paddle's operators, by their names in today's programs (PIR)."""

from tilewright.frontend.converters import Converters

converts = Converters("paddle")
