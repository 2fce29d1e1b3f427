"""Boards without a system: models as C for microcontrollers, whose images and weights stay bytes."""
