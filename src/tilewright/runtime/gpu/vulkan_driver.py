"""Vulkan's loader by ctypes: the functions and structures used, and results as exceptions.

Names, values and layouts are those of the Vulkan 1.2 specification. A structure that begins with its type is made by
keyword; pointers in it are addresses, of objects that its maker keeps for the call.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from tilewright.errors import EnvironmentError_

_U32, _U64, _POINTER, _SIZE = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t

#: Parameters of each function that returns a VkResult. Handles of devices, queues and command buffers are pointers,
#: all others 64-bit numbers.
_RESULTS: dict[str, tuple[Any, ...]] = {
    "vkCreateInstance": (_POINTER,) * 3,
    "vkEnumeratePhysicalDevices": (_POINTER,) * 3,
    "vkCreateDevice": (_POINTER,) * 4,
    "vkCreateBuffer": (_POINTER,) * 4,
    "vkAllocateMemory": (_POINTER,) * 4,
    "vkBindBufferMemory": (_POINTER, _U64, _U64, _U64),
    "vkMapMemory": (_POINTER, _U64, _U64, _U64, _U32, _POINTER),
    "vkCreateShaderModule": (_POINTER,) * 4,
    "vkCreatePipelineLayout": (_POINTER,) * 4,
    "vkCreateComputePipelines": (_POINTER, _U64, _U32, _POINTER, _POINTER, _POINTER),
    "vkCreateCommandPool": (_POINTER,) * 4,
    "vkAllocateCommandBuffers": (_POINTER,) * 3,
    "vkBeginCommandBuffer": (_POINTER,) * 2,
    "vkEndCommandBuffer": (_POINTER,),
    "vkCreateQueryPool": (_POINTER,) * 4,
    "vkGetQueryPoolResults": (_POINTER, _U64, _U32, _U32, _SIZE, _POINTER, _U64, _U32),
    "vkQueueSubmit": (_POINTER, _U32, _POINTER, _U64),
    "vkCreateFence": (_POINTER,) * 4,
    "vkWaitForFences": (_POINTER, _U32, _POINTER, _U32, _U64),
    "vkResetFences": (_POINTER, _U32, _POINTER),
}
_NOTHING: dict[str, tuple[Any, ...]] = {
    "vkGetPhysicalDeviceProperties": (_POINTER,) * 2,
    "vkGetPhysicalDeviceFeatures2": (_POINTER,) * 2,
    "vkGetPhysicalDeviceMemoryProperties": (_POINTER,) * 2,
    "vkGetPhysicalDeviceQueueFamilyProperties": (_POINTER,) * 3,
    "vkGetDeviceQueue": (_POINTER, _U32, _U32, _POINTER),
    "vkGetBufferMemoryRequirements": (_POINTER, _U64, _POINTER),
    "vkDestroyBuffer": (_POINTER, _U64, _POINTER),
    "vkFreeMemory": (_POINTER, _U64, _POINTER),
    "vkDestroyShaderModule": (_POINTER, _U64, _POINTER),
    "vkDestroyPipeline": (_POINTER, _U64, _POINTER),
    "vkDestroyQueryPool": (_POINTER, _U64, _POINTER),
    "vkFreeCommandBuffers": (_POINTER, _U64, _U32, _POINTER),
    "vkCmdBindPipeline": (_POINTER, _U32, _U64),
    "vkCmdPushConstants": (_POINTER, _U64, _U32, _U32, _U32, _POINTER),
    "vkCmdDispatch": (_POINTER, _U32, _U32, _U32),
    "vkCmdPipelineBarrier": (_POINTER, _U32, _U32, _U32, _U32, _POINTER, _U32, _POINTER, _U32, _POINTER),
    "vkCmdCopyBuffer": (_POINTER, _U64, _U64, _U32, _POINTER),
    "vkCmdResetQueryPool": (_POINTER, _U64, _U32, _U32),
    "vkCmdWriteTimestamp": (_POINTER, _U32, _U64, _U32),
}

TIMEOUT, OUT_OF_HOST_MEMORY, OUT_OF_DEVICE_MEMORY, DEVICE_LOST = 2, -1, -2, -4
_NAMES = {
    1: "not ready", TIMEOUT: "timeout", OUT_OF_HOST_MEMORY: "out of host memory", -2: "out of device memory",
    -3: "initialization failed", DEVICE_LOST: "device lost", -5: "memory map failed", -6: "layer not present",
    -7: "extension not present", -8: "feature not present", -9: "incompatible driver", -10: "too many objects",
    -11: "format not supported", -12: "fragmented pool",
}  # fmt: skip


def _structure(kind: int, *fields: tuple[str, Any]) -> Any:
    """A structure that begins with its type and the next one of a chain."""

    class Made(ctypes.Structure):
        _fields_ = [("sType", _U32), ("pNext", _POINTER), *fields]

        def __init__(self, **values: Any) -> None:
            super().__init__(sType=kind, **values)

    return Made


ApplicationInfo = _structure(
    0, ("pApplicationName", ctypes.c_char_p), ("applicationVersion", _U32), ("pEngineName", ctypes.c_char_p),
    ("engineVersion", _U32), ("apiVersion", _U32),
)  # fmt: skip
InstanceCreateInfo = _structure(
    1, ("flags", _U32), ("pApplicationInfo", _POINTER), ("layerCount", _U32), ("layers", _POINTER),
    ("extensionCount", _U32), ("extensions", _POINTER),
)  # fmt: skip
DeviceQueueCreateInfo = _structure(
    2, ("flags", _U32), ("queueFamilyIndex", _U32), ("queueCount", _U32), ("pQueuePriorities", _POINTER)
)
DeviceCreateInfo = _structure(
    3, ("flags", _U32), ("queueCreateInfoCount", _U32), ("pQueueCreateInfos", _POINTER), ("layerCount", _U32),
    ("layers", _POINTER), ("extensionCount", _U32), ("extensions", _POINTER), ("pEnabledFeatures", _POINTER),
)  # fmt: skip
SubmitInfo = _structure(
    4, ("waitCount", _U32), ("waits", _POINTER), ("stages", _POINTER), ("commandBufferCount", _U32),
    ("pCommandBuffers", _POINTER), ("signalCount", _U32), ("signals", _POINTER),
)  # fmt: skip
MemoryAllocateInfo = _structure(5, ("allocationSize", _U64), ("memoryTypeIndex", _U32))
FenceCreateInfo = _structure(8, ("flags", _U32))
QueryPoolCreateInfo = _structure(
    11, ("flags", _U32), ("queryType", _U32), ("queryCount", _U32), ("pipelineStatistics", _U32)
)
BufferCreateInfo = _structure(
    12, ("flags", _U32), ("size", _U64), ("usage", _U32), ("sharingMode", _U32), ("familyCount", _U32),
    ("families", _POINTER),
)  # fmt: skip
ShaderModuleCreateInfo = _structure(16, ("flags", _U32), ("codeSize", _SIZE), ("pCode", _POINTER))
PipelineShaderStageCreateInfo = _structure(
    18, ("flags", _U32), ("stage", _U32), ("module", _U64), ("pName", ctypes.c_char_p), ("specialization", _POINTER)
)
ComputePipelineCreateInfo = _structure(
    29, ("flags", _U32), ("stage", PipelineShaderStageCreateInfo), ("layout", _U64), ("base", _U64),
    ("baseIndex", ctypes.c_int32),
)  # fmt: skip
PipelineLayoutCreateInfo = _structure(
    30, ("flags", _U32), ("setCount", _U32), ("sets", _POINTER), ("rangeCount", _U32), ("pRanges", _POINTER)
)
CommandPoolCreateInfo = _structure(39, ("flags", _U32), ("queueFamilyIndex", _U32))
CommandBufferAllocateInfo = _structure(40, ("commandPool", _U64), ("level", _U32), ("count", _U32))
CommandBufferBeginInfo = _structure(42, ("flags", _U32), ("inheritance", _POINTER))
MemoryBarrier = _structure(46, ("srcAccessMask", _U32), ("dstAccessMask", _U32))
MemoryAllocateFlagsInfo = _structure(1000060000, ("flags", _U32), ("deviceMask", _U32))
BufferDeviceAddressInfo = _structure(1000244001, ("buffer", _U64))
#: What a device can do: one flag a feature, in the order of the specification.
Features = _structure(1000059000, ("flags", _U32 * 55))
Features11 = _structure(49, ("flags", _U32 * 12))
Features12 = _structure(51, ("flags", _U32 * 47))


class MemoryRequirements(ctypes.Structure):
    _fields_ = (("size", _U64), ("alignment", _U64), ("memoryTypeBits", _U32))


class MemoryProperties(ctypes.Structure):
    """Types of memory as pairs of flags and the number of a heap, heaps as pairs of bytes and flags."""

    _fields_ = (
        ("typeCount", _U32),
        ("types", (_U32 * 2) * 32),
        ("heapCount", _U32),
        ("heaps", (_U64 * 2) * 16),
    )


class Vulkan:
    """The loader's functions."""

    def __init__(self, library: Any) -> None:
        self._results = {name: _typed(library, name, types, ctypes.c_int32) for name, types in _RESULTS.items()}
        for name, types in _NOTHING.items():
            setattr(self, name, _typed(library, name, types, None))
        self._address = _typed(library, "vkGetBufferDeviceAddress", (_POINTER, _POINTER), _U64)

    def call(self, name: str, *args: Any) -> None:
        """Call a function. Raises `EnvironmentError_` for every result but success."""
        code = self.try_call(name, *args)
        if code:
            raise EnvironmentError_(f"Vulkan refused {name}: {_NAMES.get(code, 'error')} ({code})")

    def try_call(self, name: str, *args: Any) -> int:
        """Call a function; its VkResult."""
        return int(self._results[name](*args))

    def made(self, name: str, kind: Any, *args: Any) -> Any:
        """Call a function whose last parameter returns a value of a ctypes kind; the value."""
        value = kind()
        self.call(name, *args, ctypes.byref(value))
        return value.value

    def address(self, device: int, buffer: int) -> int:
        """The address of a buffer in kernels."""
        return int(self._address(device, ctypes.byref(BufferDeviceAddressInfo(buffer=buffer))))

    def __getattr__(self, name: str) -> Any:  # the functions that return nothing, for type checkers
        raise AttributeError(name)


def _typed(library: Any, name: str, types: tuple[Any, ...], result: Any) -> Any:
    try:
        function = getattr(library, name)
    except AttributeError:
        raise EnvironmentError_(f"libvulkan.so.1 is too old: it has no {name}; install a newer libvulkan1") from None
    function.argtypes, function.restype = list(types), result
    return function


@functools.cache
def vulkan() -> Vulkan:
    """The loader of this machine. Raises `EnvironmentError_` where there is none."""
    try:
        return Vulkan(ctypes.CDLL("libvulkan.so.1"))
    except OSError:
        raise EnvironmentError_(
            "the target 'vulkan' needs libvulkan.so.1 and a driver (Debian: apt install libvulkan1 mesa-vulkan-drivers)"
        ) from None
