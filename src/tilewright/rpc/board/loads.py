"""Loading on a device: artifacts and modules of ours, self-contained shared libraries, or C source of programs."""

ARTIFACT, LIBRARY, PROGRAM = "artifact", "library", "program"
