"""`vta`: the accelerator's package beside `tvm`."""

from tilewright.compat.tables.table import Table, leads_to

_COMPAT = "tilewright.compat"
_BUILD = leads_to(f"{_COMPAT}.driver.vta_build", "build", "build_config", "lower")
_ENVIRONMENT = leads_to(f"{_COMPAT}.vta.environment", "Environment", "get_env")
_BOARD = leads_to(f"{_COMPAT}.vta.simulator", "program_fpga", "reconfig_runtime")
_NO_BITSTREAM = "simulators take no bitstream; `tilewright vta explore` writes Verilog of a configuration"
_OPERATORS = leads_to(
    f"{_COMPAT}.vta.operators",
    *("conv2d_packed", "dense_packed"),
    *("schedule_conv2d_packed", "schedule_dense_packed"),
)
_TRANSPOSED = dict.fromkeys(
    (
        *("conv2d_transpose_packed", "schedule_conv2d_transpose_packed"),
        *("group_conv2d_packed", "schedule_group_conv2d_packed"),
    ),
    "compile the model: tilewright.compile(model, target='vta')",
)
_PACK = leads_to(f"{_COMPAT}.vta.operators", "graph_pack")

TABLES = (
    Table(
        "vta",
        "The accelerator VTA, on its simulators.",
        names={
            **_BUILD,
            **_ENVIRONMENT,
            **_BOARD,
            **leads_to(f"{_COMPAT}.driver.vta_build", "module_loader"),
            **leads_to(f"{_COMPAT}.runtime.version", "__version__"),
        },
        refused=dict.fromkeys(("download_bitstream", "get_bitstream_path"), _NO_BITSTREAM),
    ),
    Table("vta.build_module", "Compiling.", names=_BUILD),
    Table(
        "vta.environment",
        "Configurations.",
        names=_ENVIRONMENT | leads_to(f"{_COMPAT}.vta.environment", "DevContext", "get_vta_hw_path"),
    ),
    Table("vta.rpc_client", "Boards.", names=_BOARD),
    Table("vta.autotvm", "Measuring.", names=leads_to(f"{_COMPAT}.driver.vta_build", "module_loader")),
    Table("vta.testing", "Running tests on simulators.", names=leads_to(f"{_COMPAT}.rpc.vta_session", "run")),
    Table("vta.testing.utils", "Running tests on simulators.", names=leads_to(f"{_COMPAT}.rpc.vta_session", "run")),
    Table(
        "vta.testing.simulator",
        "What simulators counted.",
        names=leads_to(
            f"{_COMPAT}.vta.simulator",
            *("DEBUG_SKIP_EXEC", "LIBS", "clear_stats", "debug_mode", "enabled", "stats"),
        ),
    ),
    Table("vta.top", "Operators on tiles.", names=_OPERATORS | _PACK, refused=_TRANSPOSED),
    Table("vta.top.op", "Operators on tiles.", names=_OPERATORS, refused=_TRANSPOSED),
    Table("vta.top.graphpack", "Graphs on tiles.", names=_PACK),
    Table("vta.top.bitpack", "Numbers of fewer than 8 bits.", names=leads_to(f"{_COMPAT}.vta.operators", "bitpack")),
    Table("vta.top.utils", "Layouts.", names=leads_to(f"{_COMPAT}.vta.operators", "is_packed_layout")),
    Table(
        "vta.transform",
        "The classic passes, which there are none of: te.lower with an accelerator as target has its own stages.",
    ),
)
