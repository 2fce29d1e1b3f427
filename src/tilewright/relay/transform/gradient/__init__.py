"""Differentiation, and what is made of it: functions with gradients, training steps."""
