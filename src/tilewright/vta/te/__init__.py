"""Schedules of tensor expressions as programs: scopes, copies and the matrix unit as `te` knows them.

machine = Machine(isa)
s[x_buf].set_scope(machine.scopes["INP"]); s[x_buf].pragma(axis, "dma_copy")
s[product].tensorize(axis, machine.gemm); s[shifted].pragma(axis, "alu")
program = compile_schedule(machine, s, [x, w, y])
program.run([x_np, w_np, y_np])
"""

from tilewright.vta.te.machine import Machine
from tilewright.vta.te.program import ScheduledProgram, compile_schedule

__all__ = ["Machine", "ScheduledProgram", "compile_schedule"]
