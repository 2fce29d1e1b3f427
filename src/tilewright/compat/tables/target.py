"""`tvm.target`."""

from tilewright.compat.tables.table import Table, leads_to

_GENERIC = "tilewright.compat.target.generic_function"

TABLES = (
    Table(
        "tvm.target",
        "What code is made for.",
        names=leads_to(
            "tilewright.compat.target.target",
            *("Target", "arm_cpu", "bifrost", "create", "cuda", "current_target", "intel_graphics", "llvm", "mali"),
            "vta",
        )
        | leads_to(_GENERIC, "generic_func", "override_native_generic_func")
        | leads_to("tilewright.compat.tir.intrinsic_rules", "register_intrin_rule"),
        absent={
            "datatype": "element types are those of tilewright.support.dtype; write computations in terms of them",
            "rocm": "GPUs of AMD run OpenCL: tvm.target.Target('opencl')",
        },
    ),
    Table("tvm.target.target", "Targets.", names=leads_to("tilewright.compat.target.target", "Target", "create")),
    Table(
        "tvm.target.generic_func",
        "Functions that a target chooses.",
        names=leads_to(_GENERIC, "generic_func", "override_native_generic_func"),
    ),
    Table(
        "tvm.target.codegen",
        "The code generator.",
        names=leads_to("tilewright.compat.target.target", "llvm_version_major"),
    ),
)
