"""The version of the classic API that the tables follow."""

__version__ = "0.9.0"
