"""Neighbouring calls as one: the groups that become kernels, attention, parallel products of one input."""
