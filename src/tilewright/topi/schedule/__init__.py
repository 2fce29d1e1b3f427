"""Schedules of operators for each kind of target: one folder a target, one file a template."""
