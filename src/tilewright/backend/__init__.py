"""What differs between kinds of target, one module a kind: `backend_of(target)` is asked by all that compiles graphs.

Relay's layout rules and passes, the driver and the command line ask the backend; none of them imports what is below.
"""

from tilewright.backend.backend import Backend
from tilewright.backend.kinds import backend_of

__all__ = ["Backend", "backend_of"]
