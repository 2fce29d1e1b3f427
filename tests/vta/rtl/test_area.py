"""Counts of the RTL by yosys, and the errors where tools are missing."""

from __future__ import annotations

import shutil

import pytest

from tilewright.errors import EnvironmentError_
from tilewright.vta import Config, Isa

pytest.importorskip("amaranth", reason="RTL is made by amaranth, the extra `rtl`")

from tilewright.vta.explore.space import area_model
from tilewright.vta.hardware import Hardware
from tilewright.vta.rtl import area, verilator
from tilewright.vta.rtl.verilog import verilog_of

SMALL = Config(log_block=1, log_uop_buff_size=6, log_inp_buff_size=5, log_wgt_buff_size=6, log_acc_buff_size=7)


def test_verilog_has_the_ports_of_the_bus() -> None:
    text = verilog_of(Isa(SMALL), Hardware(port_bytes=16))
    for line in ("module vta(", "input [127:0] r_data", "output [15:0] w_strb", "output [31:0] ar_addr", "input clk"):
        assert line in text, line


@pytest.mark.skipif(shutil.which("yosys") is None, reason="cells are counted by yosys: apt-get install yosys")
def test_yosys_counts_memories_and_cells() -> None:
    found = area.measure_area(SMALL)
    memory = 8 * ((2 << 6) + (1 << 5) + (1 << 6) + (2 << 7) + 32)  # micro-ops and accumulators twice, outputs
    assert memory < found.memory_bits < memory + 50_000  # and queues
    assert found.cells["mul_16"] >= 4
    assert area_model(SMALL, Hardware()) == pytest.approx(found.total, rel=0.15)


def test_tools_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(EnvironmentError_, match="apt-get install yosys"):
        area.measure_area(SMALL)
    with pytest.raises(EnvironmentError_, match="apt-get install verilator"):
        verilator._tools()
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/verilator" if name == "verilator" else None)
    with pytest.raises(EnvironmentError_, match=r"apt-get install g\+\+"):
        verilator._tools()
