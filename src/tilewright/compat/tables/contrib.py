"""`tvm.contrib`."""

from tilewright.compat.tables.table import Table, leads_to

_COMPAT = "tilewright.compat"
_EXECUTOR = leads_to(f"{_COMPAT}.relay.executor", "GraphModule", "create")
_DEBUG = leads_to(f"{_COMPAT}.relay.debug_executor", "GraphModuleDebug", "create")

TABLES = (
    *[
        Table(
            f"tvm.contrib.{name}",
            "Products of matrices.",
            names=leads_to(f"{_COMPAT}.topi.linear_algebra", "batch_matmul", "matmul"),
        )
        for name in ("cblas", "mkl", "mkldnn", "cublas", "cublaslt")
    ],
    Table(
        "tvm.contrib.sparse",
        "Matrices as lists of their non-zero elements.",
        names=leads_to(
            f"{_COMPAT}.runtime.sparse_arrays",
            *("CSRNDArray", "CSRPlaceholderOp", "SparsePlaceholderOp", "array", "csr", "float32", "itype"),
            "placeholder",
        ),
    ),
    Table(
        "tvm.contrib.cudnn",
        "NVIDIA's library.",
        refused=dict.fromkeys(
            ("conv_forward", "conv_output_shape", "conv_find_algo", "softmax"), "operators are compiled, not called"
        ),
    ),
    Table(
        "tvm.contrib.cc",
        "The C compiler.",
        names=leads_to(
            f"{_COMPAT}.runtime.compilers", "create_executable", "create_shared", "cross_compiler", "get_cc"
        ),
    ),
    Table("tvm.contrib.clang", "Clang.", names=leads_to(f"{_COMPAT}.runtime.compilers", "create_llvm", "find_clang")),
    Table(
        "tvm.contrib.download",
        "Files from the net.",
        names=leads_to(f"{_COMPAT}.runtime.compilers", "download", "download_testdata"),
    ),
    Table("tvm.contrib", "What the classic stack kept beside its core."),
    Table("tvm.contrib.graph_executor", "The graph executor.", names=_EXECUTOR),
    Table("tvm.contrib.graph_runtime", "The graph executor, by its oldest name.", names=_EXECUTOR),
    Table("tvm.contrib.debugger", "The graph executor with looking inside."),
    Table("tvm.contrib.debugger.debug_executor", "The graph executor with looking inside.", names=_DEBUG),
    Table(
        "tvm.contrib.utils",
        "Temporary directories.",
        names=leads_to(f"{_COMPAT}.runtime.utils", "tempdir", "TempDirectory"),
    ),
    Table(
        "tvm.contrib.util",
        "Temporary directories, by their oldest name.",
        names=leads_to(f"{_COMPAT}.runtime.utils", "tempdir", "TempDirectory"),
    ),
    Table(
        "tvm.contrib.pickle_memoize",
        "Results kept between calls.",
        names=leads_to(f"{_COMPAT}.runtime.utils", "memoize"),
    ),
    Table(
        "tvm.contrib.nvcc",
        "CUDA's compiler.",
        names=leads_to(
            f"{_COMPAT}.runtime.utils",
            have_fp16="no_gpu",
            have_int8="no_gpu",
            have_bf16="no_gpu",
            have_tensorcore="no_gpu",
        ),
        absent={"compile_cuda": "there is no CUDA compiler here"},
    ),
)
