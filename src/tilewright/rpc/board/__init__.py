"""Boards without Python: the worker that runs on them, as C, and the libraries that it loads."""
