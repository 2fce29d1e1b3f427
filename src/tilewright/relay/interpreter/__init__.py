"""What a program computes, one operator's NumPy reference after another: the yardstick of everything else."""
