"""Random and damaged input: `mutations.py` changes model files and artifacts that `seeds.py` makes."""
