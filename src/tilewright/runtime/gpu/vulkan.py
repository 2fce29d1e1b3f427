"""Vulkan devices: kernels take the address of their arguments, so that buffers need no descriptors.

A kernel's only push constant is the address of a block of its arguments: addresses of buffers, and numbers, laid out as
in C. The blocks of a recording lie in one buffer that the host wrote once.
"""

from __future__ import annotations

import ctypes
import functools
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import EnvironmentError_, InternalError
from tilewright.runtime.gpu import vulkan_driver as vk
from tilewright.runtime.gpu.api import Copy, Extent3, Kernel, Launch, check_view, check_words, numbered, refuse_binary
from tilewright.runtime.gpu.spirv import compile_spirv
from tilewright.runtime.memory import round_up
from tilewright.support import knobs

_U32, _U64 = ctypes.c_uint32, ctypes.c_uint64
_COMPUTE_QUEUE = 2
_DEVICE_LOCAL, _HOST_VISIBLE, _HOST_COHERENT, _HOST_CACHED = 1, 2, 4, 8  # VkMemoryPropertyFlagBits
_USAGE = 1 | 2 | 0x20 | 0x20000  # copied from and to, storage, addressed by kernels (VkBufferUsageFlagBits)
_COMPUTE_STAGE, _COMPUTE_POINT = 0x20, 1  # VkShaderStageFlagBits, VkPipelineBindPoint
_WORK, _ANY_ACCESS = 0x800 | 0x1000, 0x8000 | 0x10000  # stages compute and transfer; reads and writes of any kind
_AFTER_ALL = 0x2000  # the stage that a time stamp waits for
_SIMULTANEOUS = 4  # a command buffer that is submitted again while it runs
_CHUNK = 16 << 20  # bytes that a copy between host and device moves at a time
#: Numbers of features in their structures (Vulkan 1.2, chapter 42).
_ROBUST_ACCESS, _FLOAT64, _INT64, _INT16 = 0, 38, 39, 40
_STORAGE16 = 0  # of Features11
_STORAGE8, _FLOAT16, _INT8, _DEVICE_ADDRESS = 1, 6, 7, 36  # of Features12
#: What text has that computes with integers of other sizes than 32 bits.
_OTHER_INTEGERS = "GL_EXT_shader_explicit_arithmetic_types"
_KINDS = ("other", "integrated GPU", "discrete GPU", "virtual GPU", "CPU")
_PREFERRED = (2, 1, 3, 4, 0)


class PhysicalDevice:
    """A device as its driver describes it."""

    def __init__(self, handle: int) -> None:
        self.handle, loaded = handle, vk.vulkan()
        text = ctypes.create_string_buffer(1024)  # VkPhysicalDeviceProperties; limits begin at byte 296
        loaded.vkGetPhysicalDeviceProperties(handle, text)
        raw = text.raw
        version, self.driver_version, _, _, kind = np.frombuffer(raw, np.uint32, 5).tolist()
        self.kind = _KINDS[kind] if kind < len(_KINDS) else "other"
        self.rank = _PREFERRED.index(kind) if kind in _PREFERRED else len(_PREFERRED)
        self.name = raw[20:276].split(b"\0")[0].decode(errors="replace")
        self.version = f"{version >> 22}.{version >> 12 & 0x3FF}.{version & 0xFFF}"
        limits = np.frombuffer(raw, np.uint32, 126, 296)
        self.shared_bytes, self.most_blocks = int(limits[54]), tuple(limits[55:58].tolist())
        self.most_threads = int(limits[58])
        self.tick = float(np.frombuffer(raw, np.float32, 1, 296 + 424)[0]) * 1e-9
        self.features, self.features11, self.features12 = vk.Features(), vk.Features11(), vk.Features12()
        self.features.pNext, self.features11.pNext = map(ctypes.addressof, (self.features11, self.features12))
        loaded.vkGetPhysicalDeviceFeatures2(handle, ctypes.byref(self.features))
        self.features.flags[_ROBUST_ACCESS] = 0  # checks of bounds cost, and kernels have their own
        self.memory = vk.MemoryProperties()
        loaded.vkGetPhysicalDeviceMemoryProperties(handle, ctypes.byref(self.memory))

    @property
    def memory_bytes(self) -> int:
        """Bytes of the largest heap of the device's own memory."""
        return max(size for size, flags in self.memory.heaps[: self.memory.heapCount] if flags & 1)

    @property
    def has_addresses(self) -> bool:
        """True if buffers have addresses, without which no kernel runs."""
        return bool(self.features12.flags[_DEVICE_ADDRESS])

    def lacking(self) -> list[str]:
        """Integers that the device has not, of which kernels use all sizes unless they are compiled for words alone."""
        needed = {
            "shaderInt64": self.features.flags[_INT64],
            "shaderInt16": self.features.flags[_INT16],
            "shaderInt8": self.features12.flags[_INT8],
            "storageBuffer8BitAccess": self.features12.flags[_STORAGE8],
            "storageBuffer16BitAccess": self.features11.flags[_STORAGE16],
        }
        return [name for name, there in needed.items() if not there]


@functools.cache
def physical_devices() -> list[PhysicalDevice]:
    """The devices of this machine, GPUs first. Raises `EnvironmentError_` without a loader or a driver."""
    loaded = vk.vulkan()
    application = vk.ApplicationInfo(pApplicationName=b"tilewright", apiVersion=1 << 22 | 2 << 12)
    info = vk.InstanceCreateInfo(pApplicationInfo=ctypes.addressof(application))
    instance = loaded.made("vkCreateInstance", ctypes.c_void_p, ctypes.byref(info), None)
    count = _U32()
    loaded.call("vkEnumeratePhysicalDevices", instance, ctypes.byref(count), None)
    handles = (ctypes.c_void_p * max(1, count.value))()
    loaded.call("vkEnumeratePhysicalDevices", instance, ctypes.byref(count), handles)
    return sorted((PhysicalDevice(h) for h in handles[: count.value] if h), key=lambda device: device.rank)


class VulkanDevice:
    """A device with one queue, which works in order."""

    def __init__(self, physical: PhysicalDevice) -> None:
        """Raises `EnvironmentError_` where the device lacks what kernels need."""
        self.physical, self.driver = physical, vk.vulkan()
        self.name, self.alignment = f"Vulkan {physical.name}", 64
        if not physical.has_addresses:
            raise EnvironmentError_(f"{self.name} has no bufferDeviceAddress, which kernels need; use another device")
        family = self._queue_family()
        priority = ctypes.c_float(1)
        queue = vk.DeviceQueueCreateInfo(
            queueFamilyIndex=family, queueCount=1, pQueuePriorities=ctypes.addressof(priority)
        )
        info = vk.DeviceCreateInfo(
            pNext=ctypes.addressof(physical.features), queueCreateInfoCount=1, pQueueCreateInfos=ctypes.addressof(queue)
        )
        made = self.driver.made
        self.handle = made("vkCreateDevice", ctypes.c_void_p, physical.handle, ctypes.byref(info), None)
        held = ctypes.c_void_p()
        self.driver.vkGetDeviceQueue(self.handle, family, 0, ctypes.byref(held))
        self._queue = held.value
        pool = vk.CommandPoolCreateInfo(queueFamilyIndex=family)
        self.pool = made("vkCreateCommandPool", _U64, self.handle, ctypes.byref(pool), None)
        self._fence = made("vkCreateFence", _U64, self.handle, ctypes.byref(vk.FenceCreateInfo()), None)
        constants = (_U32 * 3)(_COMPUTE_STAGE, 0, 8)
        layout = vk.PipelineLayoutCreateInfo(rangeCount=1, pRanges=ctypes.addressof(constants))
        self.layout = made("vkCreatePipelineLayout", _U64, self.handle, ctypes.byref(layout), None)
        #: Held while the queue or the pool is used, which take one thread at a time.
        self.lock = threading.RLock()
        #: The message of the error after which this device takes no more work.
        self.lost: str | None = None
        self._in_flight: dict[int, VulkanRecording] = {}
        self._staging = self.visible(_CHUNK)

    def _queue_family(self) -> int:
        count = _U32()
        ask = self.driver.vkGetPhysicalDeviceQueueFamilyProperties
        ask(self.physical.handle, ctypes.byref(count), None)
        families = ((_U32 * 6) * count.value)()  # flags, queues, bits of time stamps, granularity
        ask(self.physical.handle, ctypes.byref(count), families)
        found = [i for i, family in enumerate(families) if family[0] & _COMPUTE_QUEUE]
        if not found:
            raise EnvironmentError_(f"{self.name} has no queue for kernels; use another device")
        return found[0]

    def facts(self) -> dict[str, int | str]:
        """Figures of the device, as its driver says them."""
        physical = self.physical
        return {
            "name": self.name,
            "kind": physical.kind,
            "version": physical.version,
            "max_threads_per_block": physical.most_threads,
            "shared_bytes_per_block": physical.shared_bytes,
            "memory_bytes": physical.memory_bytes,
        }

    def allocate(self, nbytes: int) -> VulkanBuffer:
        """Device memory. Raises `EnvironmentError_` where it does not suffice."""
        return self._buffer(nbytes, _DEVICE_LOCAL, 0)

    def visible(self, nbytes: int) -> VulkanBuffer:
        """Memory that the host sees as well, at the buffer's `host`."""
        return self._buffer(nbytes, _HOST_VISIBLE | _HOST_COHERENT, _HOST_CACHED)

    def _buffer(self, nbytes: int, needed: int, liked: int) -> VulkanBuffer:
        size = round_up(max(1, nbytes), self.alignment)
        memory = _Memory(self, size, needed, liked)
        return VulkanBuffer(memory, 0, size)

    def view(self, buffer: VulkanBuffer, offset: int, nbytes: int) -> VulkanBuffer:
        """A part of the memory, which it keeps."""
        check_view(self.name, buffer.size, self.alignment, offset, nbytes)
        return VulkanBuffer(buffer.memory, buffer.offset + offset, nbytes)

    def write(self, buffer: VulkanBuffer, array: np.ndarray[Any, Any]) -> None:
        """Copy a contiguous array to `buffer`, through memory that both see.

        Raises `UnsupportedError` for integers of more bits than a device without such has.
        """
        if self.physical.lacking():
            check_words(self.name, array)
        with self.lock:
            for start in range(0, array.nbytes, _CHUNK):
                size = min(_CHUNK, array.nbytes - start)
                ctypes.memmove(self._staging.memory.host, array.ctypes.data + start, size)
                self.copy(self._staging, VulkanBuffer(buffer.memory, buffer.offset + start, size), size)
                self.synchronize()

    def read(self, buffer: VulkanBuffer, array: np.ndarray[Any, Any]) -> None:
        """Fill a contiguous array from `buffer`."""
        with self.lock:
            for start in range(0, array.nbytes, _CHUNK):
                size = min(_CHUNK, array.nbytes - start)
                self.copy(VulkanBuffer(buffer.memory, buffer.offset + start, size), self._staging, size)
                self.synchronize()
                ctypes.memmove(array.ctypes.data + start, self._staging.memory.host, size)

    def copy(self, source: VulkanBuffer, target: VulkanBuffer, nbytes: int) -> None:
        """Queue a copy within device memory."""
        if nbytes:
            self.record([Copy(source, target, nbytes)]).run()

    def compile(self, source: str, kernels: Sequence[str]) -> dict[str, Kernel]:
        """One compute pipeline a kernel. Raises `EnvironmentError_` where they compute with integers it has not."""
        lacking = self.physical.lacking()
        if lacking and _OTHER_INTEGERS in source:
            raise EnvironmentError_(
                f"{self.name} has no {', '.join(lacking)}, which these kernels need; compile for 'vulkan "
                "-integer_bits=32', whose kernels do without, or use another device"
            )
        return {name: VulkanKernel(self, name, code) for name, code in compile_spirv(source, kernels).items()}

    def load(self, binary: bytes, kernels: Sequence[str]) -> dict[str, Kernel]:
        """Refused: the text is compiled where it runs."""
        raise refuse_binary(self.name)

    def record(self, steps: Sequence[Launch | Copy]) -> VulkanRecording:
        """The steps as a command buffer."""
        return VulkanRecording(self, steps)

    def submit(self, recording: VulkanRecording, commands: int) -> None:
        """Queue a command buffer of a recording, which is kept until it is done."""
        if self.lost is not None:
            raise EnvironmentError_(self.lost)
        held = (ctypes.c_void_p * 1)(commands)
        info = vk.SubmitInfo(commandBufferCount=1, pCommandBuffers=ctypes.addressof(held))
        with self.lock:
            self._in_flight[id(recording)] = recording
            self.driver.call("vkQueueSubmit", self._queue, 1, ctypes.byref(info), 0)

    def synchronize(self) -> None:
        """Wait for the queue. Raises `EnvironmentError_` where it failed or exceeds the time limit."""
        if self.lost is not None:
            raise EnvironmentError_(self.lost)
        with self.lock:
            fence = _U64(self._fence)
            self.driver.call("vkQueueSubmit", self._queue, 0, None, self._fence)
            self._wait(ctypes.byref(fence))
            self.driver.call("vkResetFences", self.handle, 1, ctypes.byref(fence))
            self._in_flight.clear()

    def _wait(self, fence: Any) -> None:
        start, limit = time.perf_counter(), knobs.DEVICE_TIMEOUT.get()
        # a turn a tenth of a second: the driver's wait cannot be interrupted from the keyboard
        while code := self.driver.try_call("vkWaitForFences", self.handle, 1, fence, 1, 100_000_000):
            queued = {step.kernel.name: None for held in self._in_flight.values() for step in held.launches}
            names = ", ".join([*queued][-4:])
            if code != vk.TIMEOUT:
                self.lost = f"{self.name}: the driver gave up the device ({code}) with these kernels queued: {names}"
            elif limit and time.perf_counter() - start > limit:
                self.lost = (
                    f"{self.name}: not done after {limit:g} seconds; queued last: {names}. Its work cannot be stopped: "
                    f"end this process, or set {knobs.DEVICE_TIMEOUT.name} to more seconds (0: no limit)"
                )
            if self.lost is not None:
                raise EnvironmentError_(self.lost)


class _Memory:
    """A buffer with memory of its own; freed with this object."""

    def __init__(self, device: VulkanDevice, size: int, needed: int, liked: int) -> None:
        self._device, driver = device, device.driver
        self.buffer = self._memory = 0
        info = vk.BufferCreateInfo(size=size, usage=_USAGE)
        self.buffer = self._made("vkCreateBuffer", info, size)
        wanted = vk.MemoryRequirements()
        driver.vkGetBufferMemoryRequirements(device.handle, self.buffer, ctypes.byref(wanted))
        flags = vk.MemoryAllocateFlagsInfo(flags=2)  # VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT
        number = _memory_type(device.physical, wanted.memoryTypeBits, needed, liked)
        allocation = vk.MemoryAllocateInfo(
            pNext=ctypes.addressof(flags), allocationSize=wanted.size, memoryTypeIndex=number
        )
        self._memory = self._made("vkAllocateMemory", allocation, size)
        driver.call("vkBindBufferMemory", device.handle, self.buffer, self._memory, 0)
        self.address = driver.address(device.handle, self.buffer)
        self.host = 0
        if needed & _HOST_VISIBLE:
            whole = 2**64 - 1  # VK_WHOLE_SIZE
            self.host = driver.made("vkMapMemory", ctypes.c_void_p, device.handle, self._memory, 0, whole, 0)

    def _made(self, name: str, info: Any, size: int) -> int:
        device, made = self._device, _U64()
        code = device.driver.try_call(name, device.handle, ctypes.byref(info), None, ctypes.byref(made))
        if code:
            raise EnvironmentError_(
                f"out of device memory: {size:,} bytes requested on {device.name}, which has "
                f"{device.physical.memory_bytes:,} ({name}: {code}); use a smaller batch or free other models"
            )
        return made.value

    def __del__(self) -> None:
        device = self._device
        if device.lost is None:
            device.driver.vkDestroyBuffer(device.handle, self.buffer, None)
            device.driver.vkFreeMemory(device.handle, self._memory, None)


def _memory_type(physical: PhysicalDevice, allowed: int, needed: int, liked: int) -> int:
    """The number of a type of memory with all flags needed, of those with the most flags liked the first."""
    types = physical.memory.types[: physical.memory.typeCount]
    fitting = [i for i, (flags, _) in enumerate(types) if allowed >> i & 1 and flags & needed == needed]
    if not fitting:
        raise EnvironmentError_(f"Vulkan {physical.name} has no memory for buffers of this kind; use another device")
    return max(fitting, key=lambda i: (types[i][0] & liked, -i))


class VulkanBuffer:
    """A range of a buffer."""

    __slots__ = ("memory", "offset", "size")

    def __init__(self, memory: _Memory, offset: int, size: int) -> None:
        self.memory, self.offset, self.size = memory, offset, size

    @property
    def address(self) -> int:
        """Its start, for kernels."""
        return self.memory.address + self.offset


class VulkanKernel:
    """A compute pipeline."""

    def __init__(self, device: VulkanDevice, name: str, code: bytes) -> None:
        self.name, self._device, driver = name, device, device.driver
        held = ctypes.create_string_buffer(code, len(code))
        info = vk.ShaderModuleCreateInfo(codeSize=len(code), pCode=ctypes.addressof(held))
        module = driver.made("vkCreateShaderModule", _U64, device.handle, ctypes.byref(info), None)
        try:
            stage = vk.PipelineShaderStageCreateInfo(stage=_COMPUTE_STAGE, module=module, pName=b"main")
            whole = vk.ComputePipelineCreateInfo(stage=stage, layout=device.layout)
            self.pipeline = driver.made(
                "vkCreateComputePipelines", _U64, device.handle, 0, 1, ctypes.byref(whole), None
            )
        finally:
            driver.vkDestroyShaderModule(device.handle, module, None)

    def launch(self, grid: Extent3, block: Extent3, args: Sequence[Any], shared_bytes: int = 0) -> None:
        """Queue one launch; the extents of a block are part of the code."""
        self._device.record([Launch(self, grid, block, args, shared_bytes)]).run()

    def __del__(self) -> None:
        if getattr(self, "pipeline", None) and self._device.lost is None:
            self._device.driver.vkDestroyPipeline(self._device.handle, self.pipeline, None)


class VulkanRecording:
    """Steps as a command buffer, recorded once and submitted as often as it runs."""

    def __init__(self, device: VulkanDevice, steps: Sequence[Launch | Copy]) -> None:
        self._device, self._steps = device, tuple(steps)
        self.launches = [step for step in self._steps if isinstance(step, Launch)]
        self._commands: list[int] = []  # the command buffer, when there is one
        blocks, self._offsets = b"", list[int]()
        for launch in self.launches:
            self._check(launch)
            self._offsets.append(len(blocks))
            block = _block(launch.args)
            blocks += block + bytes(-len(block) % 16)
        self._arguments = device.visible(len(blocks)) if blocks else None
        if self._arguments is not None:
            ctypes.memmove(self._arguments.memory.host, blocks, len(blocks))

    def _check(self, launch: Launch) -> None:
        name, most = launch.kernel.name, self._device.physical.most_blocks
        if launch.shared_bytes:
            raise InternalError(f"kernel {name}: Vulkan's shared memory has its size in the code")
        if any(count > limit for count, limit in zip(launch.grid, most)):
            raise EnvironmentError_(
                f"{self._device.name}: kernel {name}, {launch.grid} blocks; its limits are {most} "
                "(maxComputeWorkGroupCount). Use a smaller batch, or another device"
            )

    def run(self) -> None:
        """Submit all steps."""
        if not self._steps:
            return
        if not self._commands:
            self._commands.append(self._recorded(None))
        self._device.submit(self, self._commands[0])

    def times(self) -> list[float]:
        """Seconds of each step by time stamps between them."""
        if not self._steps:
            return []
        device, driver, count = self._device, self._device.driver, len(self._steps) + 1
        info = vk.QueryPoolCreateInfo(queryType=2, queryCount=count)  # VK_QUERY_TYPE_TIMESTAMP
        pool = driver.made("vkCreateQueryPool", _U64, device.handle, ctypes.byref(info), None)
        try:
            commands = self._recorded(pool)
            device.submit(self, commands)
            device.synchronize()
            _free(device, [commands])
            ticks = np.empty(count, np.uint64)
            driver.call(
                "vkGetQueryPoolResults", device.handle, pool, 0, count, ticks.nbytes, ticks.ctypes.data, 8, 1
            )  # each 64 bits wide
            return [float(span) * device.physical.tick for span in np.diff(ticks.astype(np.int64))]
        finally:
            driver.vkDestroyQueryPool(device.handle, pool, None)

    def _recorded(self, stamps: int | None) -> int:
        """A command buffer of the steps; with a pool of time stamps, one before the first and one after each."""
        device, driver = self._device, self._device.driver
        with device.lock:
            info = vk.CommandBufferAllocateInfo(commandPool=device.pool, count=1)
            made: int = driver.made("vkAllocateCommandBuffers", ctypes.c_void_p, device.handle, ctypes.byref(info))
            begin = vk.CommandBufferBeginInfo(flags=_SIMULTANEOUS)
            driver.call("vkBeginCommandBuffer", made, ctypes.byref(begin))
            if stamps is not None:
                driver.vkCmdResetQueryPool(made, stamps, 0, len(self._steps) + 1)
            offsets = iter(self._offsets)
            for i, step in enumerate(self._steps):
                _barrier(driver, made)  # also after what was queued before this command buffer
                if stamps is not None and i == 0:
                    driver.vkCmdWriteTimestamp(made, _AFTER_ALL, stamps, 0)
                self._step(made, step, offsets)
                if stamps is not None:
                    driver.vkCmdWriteTimestamp(made, _AFTER_ALL, stamps, i + 1)
            driver.call("vkEndCommandBuffer", made)
            return made

    def _step(self, commands: int, step: Launch | Copy, offsets: Any) -> None:
        driver = self._device.driver
        if isinstance(step, Copy):
            source, target = step.source, step.target
            region = (_U64 * 3)(source.offset, target.offset, step.nbytes)
            driver.vkCmdCopyBuffer(commands, source.memory.buffer, target.memory.buffer, 1, ctypes.byref(region))
            return
        assert isinstance(step.kernel, VulkanKernel) and self._arguments is not None
        block = _U64(self._arguments.address + next(offsets))
        driver.vkCmdBindPipeline(commands, _COMPUTE_POINT, step.kernel.pipeline)
        driver.vkCmdPushConstants(commands, self._device.layout, _COMPUTE_STAGE, 0, 8, ctypes.byref(block))
        driver.vkCmdDispatch(commands, *step.grid)

    def __del__(self) -> None:
        if getattr(self, "_commands", None) and self._device.lost is None:
            _free(self._device, self._commands)


def _free(device: VulkanDevice, commands: Sequence[int]) -> None:
    held = (ctypes.c_void_p * len(commands))(*commands)
    with device.lock:
        device.driver.vkFreeCommandBuffers(device.handle, device.pool, len(commands), ctypes.byref(held))


def _barrier(driver: Any, commands: int) -> None:
    """Have later steps see what earlier ones wrote."""
    info = vk.MemoryBarrier(srcAccessMask=_ANY_ACCESS, dstAccessMask=_ANY_ACCESS)
    driver.vkCmdPipelineBarrier(commands, _WORK, _WORK, 0, 1, ctypes.byref(info), 0, None, 0, None)


def _block(args: Sequence[Any]) -> bytes:
    """Arguments as a structure of C: addresses of buffers and numbers, each at a multiple of its size."""
    made = b""
    for arg in args:
        value = np.uint64(arg.address) if isinstance(arg, VulkanBuffer) else np.asarray(arg)
        made += bytes(-len(made) % value.nbytes) + value.tobytes()
    return made


@functools.cache
def vulkan_device(ordinal: int = 0) -> VulkanDevice:
    """The Vulkan device of a number in `physical_devices`. Raises `EnvironmentError_` where there is none."""
    devices = physical_devices()
    if not devices:
        raise EnvironmentError_(
            "no Vulkan driver has a device here; without a GPU install lavapipe (Debian: apt install "
            "mesa-vulkan-drivers)"
        )
    return VulkanDevice(numbered(devices, "vulkan", ordinal))
