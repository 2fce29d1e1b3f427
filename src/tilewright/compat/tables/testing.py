"""`tvm.testing`."""

from tilewright.compat.tables.table import Table, leads_to

TABLES = (
    Table(
        "tvm.testing",
        "Helpers of test suites.",
        names=leads_to(
            "tilewright.compat.classic.testing",
            "assert_allclose",
            "assert_prim_expr_equal",
            "device_enabled",
            "enabled_targets",
            "exclude_targets",
            "fixture",
            "known_failing_targets",
            "main",
            "parameter",
            "parameters",
            "parametrize_targets",
            "requires_cuda",
            "requires_gpu",
            "requires_llvm",
            "requires_metal",
            "requires_opencl",
            "requires_package",
            "check_bool_expr_is_true",
            "requires_cudagraph",
            "requires_micro",
            "requires_rocm",
            "requires_tensorcore",
            "requires_rpc",
            "requires_vulkan",
            "slow",
            "uses_gpu",
            "check_numerical_grads",
            "echo",
        ),
    ),
    Table("tvm.testing.utils", "The same helpers.", open=("tilewright.compat.classic.testing",)),
)
