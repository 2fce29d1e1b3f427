"""The formats of models in one table, and the import of a model by whichever of them it is of."""
