"""The NumPy reference of each operator: used to fold constants and as the oracle of the tests.

`tilewright.topi` has the same operators as tensor expressions.
"""
