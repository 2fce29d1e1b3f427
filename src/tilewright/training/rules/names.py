"""Names in the state of optimizers that others look for."""

#: Of a moving average of a parameter: this and the number of the parameter.
AVERAGE = "average"
