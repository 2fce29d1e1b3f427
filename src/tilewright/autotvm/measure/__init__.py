"""Measuring configurations: builder and runner processes, comparison in turns, typed failures."""
