"""Evaluation of a program by one operator's NumPy reference after another: the oracle of everything else."""
