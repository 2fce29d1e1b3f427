"""`tvm.testing`."""

from tilewright.compat.tables.table import Table, leads_to

TABLES = (
    Table(
        "tvm.testing",
        "Helpers of test suites.",
        names=leads_to(
            "tilewright.compat.classic.testing",
            "assert_allclose",
            "device_enabled",
            "enabled_targets",
            "exclude_targets",
            "fixture",
            "known_failing_targets",
            "main",
            "parameter",
            "parametrize_targets",
            "requires_cuda",
            "requires_gpu",
            "requires_llvm",
            "requires_metal",
            "requires_opencl",
            "requires_package",
            "requires_rocm",
            "requires_rpc",
            "requires_vulkan",
            "slow",
            "uses_gpu",
            "check_numerical_grads",
            "echo",
        ),
        absent={
            "parameters": "give each its own tvm.testing.parameter, or use pytest.mark.parametrize",
        },
    ),
    Table("tvm.testing.utils", "The same helpers.", open=("tilewright.compat.classic.testing",)),
)
