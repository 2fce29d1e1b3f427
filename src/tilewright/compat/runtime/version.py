"""The version of the classic API that the tables follow."""

__version__ = "0.9.0"


def libinfo() -> dict[str, str]:
    """The options that the classic stack was built with, by name: the parts that this package has are "ON"."""
    there = ("USE_LLVM", "USE_RPC", "USE_GRAPH_EXECUTOR", "USE_PROFILER", "USE_AOT_EXECUTOR")
    missing = ("CUDA", "CUDNN", "CUBLAS", "OPENCL", "VULKAN", "METAL", "ROCM", "HEXAGON", "MICRO", "ETHOSN", "CMSISNN")
    more = ("ETHOSU", "DNNL", "MKL", "MKLDNN", "BLAS", "THRUST", "TENSORRT_CODEGEN", "BYODT_POSIT", "NNPACK", "CUTLASS")
    return {**dict.fromkeys(there, "ON"), **{f"USE_{name}": "OFF" for name in (*missing, *more)}}
