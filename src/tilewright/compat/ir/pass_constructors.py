"""The classic constructors of all graph passes as names of a module: `FoldConstant`, `FuseOps`, …"""

from tilewright.compat.ir.passes import CONSTRUCTORS

globals().update(CONSTRUCTORS)

__all__ = list(CONSTRUCTORS)
