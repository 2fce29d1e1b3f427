"""`tvm.target`."""

from tilewright.compat.tables.table import Table, leads_to

TABLES = (
    Table(
        "tvm.target",
        "What code is made for.",
        names=leads_to(
            "tilewright.compat.classic.target",
            *("Target", "arm_cpu", "bifrost", "create", "cuda", "intel_graphics", "llvm", "mali", "vta"),
        ),
        absent={
            "datatype": "element types are those of tilewright.support.dtype; write computations in terms of them",
            "rocm": "GPUs of AMD run OpenCL: tvm.target.Target('opencl')",
        },
    ),
    Table(
        "tvm.target.codegen",
        "The code generator.",
        names=leads_to("tilewright.compat.classic.target", "llvm_version_major"),
    ),
)
