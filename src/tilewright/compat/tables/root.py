"""`tvm`."""

from tilewright.compat.tables.table import Table, leads_to

_CLASSIC = "tilewright.compat.classic"

_BUILD = leads_to(f"{_CLASSIC}.build", "build", "lower")
#: Lists and mappings are Python's own; these ask whether something is one.
_CONTAINERS = leads_to("collections.abc", Array="Sequence", Map="Mapping")

TABLES = (
    Table(
        "tvm",
        "The classic top-level package, as far as Tilewright stands for it.",
        names={
            **leads_to(f"{_CLASSIC}.module", "IRModule"),
            **leads_to(
                f"{_CLASSIC}.device",
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
            **leads_to(f"{_CLASSIC}.version", "__version__"),
            **_BUILD,
            **leads_to(f"{_CLASSIC}.functions", "get_global_func", "register_func"),
            **leads_to(f"{_CLASSIC}.runtime", "DataTypeCode", "convert"),
            **leads_to("tilewright.errors", TVMError="TilewrightError"),
            **leads_to("tilewright.support.dtype", DataType="DType"),
        },
        absent={
            "auto_scheduler": "kernels are chosen by a cost model as they are compiled",
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
            **leads_to(f"{_CLASSIC}.rpc", "LocalSession", "RPCSession", "Server", "TrackerSession"),
            **leads_to(f"{_CLASSIC}.rpc", "connect", "connect_tracker"),
        },
        refused=dict.fromkeys(("PopenSession", "with_minrpc"), "start a server: `tilewright rpc server`"),
    ),
    Table("tvm.rpc.server", "Servers of devices.", names=leads_to(f"{_CLASSIC}.rpc", "Server")),
    Table("tvm.rpc.tracker", "What gives devices out.", names=leads_to(f"{_CLASSIC}.rpc", "Tracker")),
    Table(
        "tvm.rpc.client",
        "Sessions with devices.",
        names=leads_to(f"{_CLASSIC}.rpc", "LocalSession", "RPCSession", "TrackerSession", "connect", "connect_tracker"),
    ),
    Table(
        "tvm.rpc.proxy",
        "What stands between devices and their users.",
        refused={"Proxy": "a device is reached by its own address; rpc.Server(custom_addr=…) tells it to the tracker"},
    ),
    Table(
        "tvm.script",
        "Loop functions as Python text, which is not read.",
        refused=dict.fromkeys(
            ("asscript", "from_source", "ir", "ir_module", "tir"),
            "write loop functions with tvm.tir.ir_builder or te.hybrid.script",
        ),
    ),
    Table("tvm.container", "Lists and mappings.", names=_CONTAINERS),
    Table("tvm.ir.container", "Lists and mappings.", names=_CONTAINERS),
    Table("tvm.driver", "Compiling.", names=_BUILD),
    Table(
        "tvm.driver.build_module",
        "Compiling.",
        names={**_BUILD, **leads_to(f"{_CLASSIC}.build", "schedule_to_module")},
    ),
    Table("tvm._ffi", "The classic foreign function interface: there is none here."),
    Table("tvm._ffi.base", "Its exception.", names=leads_to("tilewright.errors", TVMError="TilewrightError")),
)
