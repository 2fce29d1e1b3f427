"""Boards without a system: models as C for microcontrollers, with channels last and integers as bytes."""
