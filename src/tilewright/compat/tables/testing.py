"""`tvm.testing`."""

from tilewright.compat.tables.table import Table, leads_to

_COMPAT = "tilewright.compat"
_REQUIREMENTS = (
    *("cuda", "cudagraph", "gpu", "llvm", "metal", "micro", "nvptx", "opencl", "package", "rocm", "rpc", "tensorcore"),
    *("vulkan", "corstone300", "ethosn", "hexagon", "x86", "x86_vnni", "x86_avx512", "skylake_avx512", "cascadelake"),
    *(
        "x86_amx",
        "arm_dot",
        "aarch64_sve",
        "aprofile_aem_fvp",
        "adreno_opencl",
        "cublas",
        "cudnn",
        "vitis_ai",
        "llvm_minimum_version",
    ),
)
_NAMES = {
    **leads_to(
        f"{_COMPAT}.testing.asserts",
        *("assert_allclose", "assert_prim_expr_equal", "check_bool_expr_is_true", "check_numerical_grads"),
    ),
    **leads_to(f"{_COMPAT}.testing.targets", *(f"requires_{name}" for name in _REQUIREMENTS)),
    **leads_to(
        f"{_COMPAT}.testing.targets",
        *("device_enabled", "enabled_targets", "exclude_targets", "known_failing_targets", "parametrize_targets"),
        *("slow", "uses_gpu", "skip_if_32bit", "skip_if_wheel_test"),
    ),
    **leads_to(f"{_COMPAT}.testing.fixtures", "fixture", "main", "parameter", "parameters"),
    **leads_to(f"{_COMPAT}.testing.values", "device_test", "echo", "test_check_eq_callback", "test_wrap_callback"),
}
_PLUGIN = leads_to(
    f"{_COMPAT}.testing.plugin",
    *("dev", "pytest_collection_modifyitems", "pytest_configure", "pytest_generate_tests", "pytest_runtest_teardown"),
)

TABLES = (
    Table("tvm.testing", "Helpers of test suites.", names=_NAMES),
    Table(
        "tvm.testing.autotvm",
        "A task, records and a runner to try tuners with.",
        names=leads_to(
            f"{_COMPAT}.autotvm.testing",
            *("DummyRunner", "bad_matmul", "get_sample_records", "get_sample_task", "matmul"),
        ),
    ),
    Table(
        "tvm.testing.utils",
        "The same helpers.",
        names={**_NAMES, **leads_to(f"{_COMPAT}.testing.targets", "install_request_hook")},
    ),
    Table("tvm.testing.plugin", "Hooks for pytest.", names=_PLUGIN),
)
