"""Lowering passes: each file holds one public function of its name that takes and returns a `PrimFunc`.

`te/lower.py` runs them in this order:

    double_buffer        two buffers in turn where a schedule requests them
    inject_prefetch      prefetches of later reads, where a schedule requests them
    simplify             ranges known, certain conditions and loops of one iteration gone
    loop_partition       main parts of loops without guards
    flatten_buffers      one index per access; before vectorizing, so that any dimension can be the vector
    hoist_if             conditions out of loops
    vectorize_reduction  one accumulator per lane
    block_sums           long sums in blocks
    vectorize_loop       lanes
    transpose_registers  blocks by shuffles of whole vectors
    lower_parallel       one function that all workers run
    plan_allocations     stack or workspace
    lower_packed_call    calls of registered Python functions
    lower_intrinsics     math as polynomials
    unroll_loop          copies; late, so that the passes before it walk less
    remove_no_op         what came to nothing

`check_bounds` comes first where it is requested. Further ones are for targets to choose: `simplify_if` (conditions
tested once), `narrow_index` (32 bits for index arithmetic), `inject_copy_intrin` and `coproc_sync` (copies as one call,
dependence tokens: for coprocessors whose units run at their own pace).
"""
