"""The backends of C: a processor's kernels by way of a C compiler, and models as C99 source."""
