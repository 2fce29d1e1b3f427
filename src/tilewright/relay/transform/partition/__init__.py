"""Partitioning for external code generators: regions marked, merged and made functions of their own."""
