"""The same values by fewer or plainer operators: folding, algebra, what nothing reads, operators spelled out."""
