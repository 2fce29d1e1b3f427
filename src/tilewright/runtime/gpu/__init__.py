"""Programs of kernels on devices other than the host's processor, and CUDA emulated on it."""

from tilewright.runtime.gpu.api import DeviceApi, Kernel
from tilewright.runtime.gpu.module import DeviceModule

__all__ = ["DeviceApi", "DeviceModule", "Kernel"]
