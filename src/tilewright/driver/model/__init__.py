"""Compilation of whole models: the choice of an executor, the entry in the disk cache, specialization for sizes."""
