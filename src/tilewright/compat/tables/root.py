"""`tvm`."""

from tilewright.compat.tables.table import Table, leads_to
from tilewright.compat.tables.te import MATH, MORE_MATH, SCHEDULE

_COMPAT = "tilewright.compat"

_BUILD = leads_to(f"{_COMPAT}.driver.build", "build", "lower")
#: Lists and mappings are Python's own; these ask whether something is one.
_CONTAINERS = leads_to("collections.abc", Array="Sequence", Map="Mapping")

#: What v0.6 and before had at the top, and later versions in `tvm.te` and `tvm.tir`.
_OLDEST = {
    **leads_to(
        "tilewright.te",
        *("compute", "create_schedule", "extern", "hybrid", "placeholder", "reduce_axis", "scan", "size_var"),
        *("sum", "tag_scope", "thread_axis", "var"),
    ),
    **leads_to(
        f"{_COMPAT}.te.ops",
        *("comm_reducer", "div", "indexdiv", "indexmod", "max", "max_value", "min", "min_value"),
    ),
    **leads_to(f"{_COMPAT}.te.tensor_intrin", "decl_tensor_intrin"),
    **leads_to(f"{_COMPAT}.te.decl_buffer", "decl_buffer"),
    **leads_to(
        f"{_COMPAT}.tir.math",
        *MORE_MATH,
        "call_intrin",
        "call_llvm_intrin",
        "call_pure_extern",
        call_pure_intrin="call_intrin",
    ),
    **leads_to("tilewright.tir", *MATH, "call_extern", "call_packed", "ir_builder"),
    **leads_to(f"{_COMPAT}.ir.text", "load_json", "save_json"),
    **leads_to(f"{_COMPAT}.driver.top_level", "build_config", "float32", "handle", "int32", "get_env_func"),
    **leads_to(f"{_COMPAT}.tir.layout", "bijective_layout", "layout"),
    **leads_to(f"{_COMPAT}.tir.intrinsic_rules", "register_intrin_rule"),
}

TABLES = (
    Table(
        "tvm",
        "The classic top-level package, as far as Tilewright stands for it.",
        names={
            **_OLDEST,
            **leads_to(f"{_COMPAT}.ir.module", "IRModule"),
            **leads_to(
                f"{_COMPAT}.runtime.device",
                "device",
                "cpu",
                "cuda",
                "opencl",
                "vulkan",
                "metal",
                "rocm",
                "ext_dev",
                Device="Device",
                context="device",
                gpu="cuda",
                cl="opencl",
            ),
            **leads_to(f"{_COMPAT}.runtime.version", "__version__"),
            **_BUILD,
            **leads_to(f"{_COMPAT}.runtime.functions", "get_global_func", "register_func"),
            **leads_to(f"{_COMPAT}.runtime.values", "DataTypeCode", "convert"),
            **leads_to("tilewright.errors", TVMError="TilewrightError"),
            **leads_to("tilewright.support.dtype", DataType="DType"),
        },
        absent={
            "micro": "models are compiled for processors with an operating system, and for WebAssembly",
        },
    ),
    Table(
        "tvm.error",
        "Exceptions by their classic names.",
        names=leads_to(
            "tilewright.errors",
            TVMError="TilewrightError",
            DiagnosticError="UserError",
            RPCError="RpcError",
            OpError="UnsupportedError",
            OpNotImplemented="UnsupportedError",
            OpAttributeUnImplemented="UnsupportedError",
            OpAttributeInvalid="ModelError",
            OpAttributeRequired="ModelError",
            InternalError="InternalError",
        ),
    ),
    Table(
        "tvm.rpc",
        "Devices from afar.",
        names={
            **leads_to(f"{_COMPAT}.rpc.session", "LocalSession", "RPCSession", "Server", "TrackerSession"),
            **leads_to(f"{_COMPAT}.rpc.session", "connect", "connect_tracker"),
        },
        refused=dict.fromkeys(("PopenSession", "with_minrpc"), "start a server: `tilewright rpc server`"),
    ),
    Table(
        "tvm.rpc.server",
        "Servers of devices.",
        names=leads_to(f"{_COMPAT}.rpc.session", "Server", _server_env="server_env"),
    ),
    Table("tvm.rpc.tracker", "What gives devices out.", names=leads_to(f"{_COMPAT}.rpc.session", "Tracker")),
    Table(
        "tvm.rpc.client",
        "Sessions with devices.",
        names=leads_to(
            f"{_COMPAT}.rpc.session", "LocalSession", "RPCSession", "TrackerSession", "connect", "connect_tracker"
        ),
    ),
    Table(
        "tvm.rpc.proxy",
        "What stands between devices and their users.",
        refused={"Proxy": "a device is reached by its own address; rpc.Server(custom_addr=…) tells it to the tracker"},
    ),
    Table("tvm.exec", "Programs: `python -m tvm.exec.NAME`."),
    *(
        Table(f"tvm.exec.{name}", what, names=leads_to(f"{_COMPAT}.rpc.programs", main=name), program=True)
        for name, what in (
            ("query_rpc_tracker", "Lists the devices of a tracker."),
            ("rpc_server", "Runs the server of a device."),
            ("rpc_tracker", "Runs a tracker."),
        )
    ),
    Table(
        "tvm.script",
        "Loop functions as Python text.",
        names=leads_to(f"{_COMPAT}.tir.script", "ir_module", ir="module_words", tir="words"),
        refused=dict.fromkeys(
            ("asscript", "from_source", "relax"),
            "functions are read where they are marked, by @T.prim_func; print a module to read its loops",
        ),
    ),
    Table(
        "tvm.support",
        "Helpers of tests.",
        names=leads_to(f"{_COMPAT}.relay.debug_executor", "FrontendTestModule")
        | leads_to(f"{_COMPAT}.runtime.version", "libinfo"),
    ),
    Table("tvm.schedule", "Schedules, and the steps of lowering them.", names=SCHEDULE),
    Table(
        "tvm.module",
        "Compiled modules.",
        names={
            **leads_to(f"{_COMPAT}.relay.executor", load="load_module"),
            **leads_to(f"{_COMPAT}.runtime.values", "enabled"),
        },
    ),
    Table(
        "tvm.ndarray", "Arrays.", names=leads_to(f"{_COMPAT}.runtime.array", "NDArray", "array", "empty", "from_dlpack")
    ),
    Table("tvm.container", "Lists and mappings.", names=_CONTAINERS),
    Table("tvm.ir.container", "Lists and mappings.", names=_CONTAINERS),
    Table("tvm.driver", "Compiling.", names=_BUILD),
    Table(
        "tvm.driver.build_module",
        "Compiling.",
        names={**_BUILD, **leads_to(f"{_COMPAT}.driver.build", "schedule_to_module")},
    ),
    Table("tvm._ffi", "The classic foreign function interface: there is none here."),
    Table(
        "tvm._ffi.base",
        "Its exception, and its strings.",
        names={
            **leads_to("tilewright.errors", TVMError="TilewrightError"),
            **leads_to(f"{_COMPAT}.runtime.values", "c_str", "py_str"),
        },
    ),
)
