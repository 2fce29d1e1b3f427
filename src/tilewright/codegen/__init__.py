"""Loop IR to code: mostly tables from node to text, one folder per kind of target."""

from tilewright.codegen.function_info import function_info
from tilewright.codegen.native.pool_code import pool_code
from tilewright.codegen.native.timed_call import timed_call_code
from tilewright.runtime.native import provide_pool
from tilewright.runtime.profile import provide_timer

__all__ = ["function_info"]

provide_pool(pool_code)
provide_timer(timed_call_code)
