"""`tvm.nd` and `tvm.runtime`."""

from tilewright.compat.tables.table import Table, leads_to

_COMPAT = "tilewright.compat"
_ND = {
    **leads_to(f"{_COMPAT}.runtime.array", "NDArray", "array", "empty", "from_dlpack"),
    **leads_to(f"{_COMPAT}.runtime.device", "device", "cpu", "cuda", "opencl", "vulkan", "metal", "rocm", "ext_dev",
               context="device", gpu="cuda"),
}  # fmt: skip
_VM = {
    **leads_to(f"{_COMPAT}.relay.vm_executable", "Executable"),
    **leads_to(f"{_COMPAT}.relay.virtual_machine", "VirtualMachine"),
}

TABLES = (
    Table("tvm.nd", "Arrays.", names=_ND),
    Table(
        "tvm.runtime",
        "Arrays, devices, compiled modules.",
        names={
            **_ND,
            **leads_to(f"{_COMPAT}.relay.executor", "load_module", Module="ExecutorFactory"),
            **leads_to(f"{_COMPAT}.runtime.params", "save_param_dict", "load_param_dict"),
            **leads_to(
                f"{_COMPAT}.runtime.values", "DataTypeCode", "PackedFunc", "ShapeTuple", "String", "convert", "enabled"
            ),
            **leads_to(f"{_COMPAT}.runtime.params", "load_param_dict_from_file", "save_param_dict_to_file"),
            **leads_to(f"{_COMPAT}.runtime.device", "Device"),
            **leads_to("builtins", Object="object"),
            **leads_to("tilewright.support.dtype", DataType="DType"),
        },
    ),
    Table("tvm.runtime.name_transforms", "Names in C.", names=leads_to(f"{_COMPAT}.ir.names", "sanitize_name")),
    Table("tvm.runtime.ndarray", "Arrays.", names=_ND),
    Table(
        "tvm.runtime.module",
        "Compiled modules.",
        names={
            **leads_to(f"{_COMPAT}.runtime.benchmark", "BenchmarkResult"),
            **leads_to(f"{_COMPAT}.relay.executor", "load_module", Module="ExecutorFactory"),
        },
    ),
    Table(
        "tvm.runtime.container",
        "Values that are no arrays.",
        names=leads_to(f"{_COMPAT}.runtime.values", "ADT", "ShapeTuple", "String", "tuple_object"),
    ),
    Table("tvm.runtime.vm", "The virtual machine.", names=_VM),
    Table(
        "tvm.runtime.profiler_vm",
        "The virtual machine, profiled.",
        absent={
            "VirtualMachineProfiler": "compile with tilewright.compile and call profile() of what it gives",
        },
    ),
)
