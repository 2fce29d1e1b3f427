"""Differentiation: functions with gradients."""
