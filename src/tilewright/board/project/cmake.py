"""A CMake project: a static library that can be installed and found, an example, and a file for a board's toolchain.

cmake -B build && cmake --build build && ctest --test-dir build
cmake -B board --toolchain cmake/cortex-m4.cmake && cmake --build board && ctest --test-dir board      under qemu
"""

from __future__ import annotations

from tilewright.board.boards import BOARDS, FLAGS, Board
from tilewright.board.project.example import main_text
from tilewright.board.project.sources import GCC_OPTIONS, OPTIONS, VERSION, Sources

_LISTS = """\
# {sentence}
cmake_minimum_required(VERSION 3.16)
project({name} VERSION {version} LANGUAGES C)
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library({name} STATIC src/{name}.c)
add_library({name}::{name} ALIAS {name})
target_include_directories({name} PUBLIC
  $<BUILD_INTERFACE:${{CMAKE_CURRENT_SOURCE_DIR}}/include>
  $<INSTALL_INTERFACE:${{CMAKE_INSTALL_INCLUDEDIR}}>)
set_target_properties({name} PROPERTIES C_STANDARD 99)
# integers of a model wrap, and buffers of several types share memory
target_compile_options({name} PRIVATE {options}
  $<$<C_COMPILER_ID:GNU>:{gcc}>)
{libm}
install(TARGETS {name} EXPORT {name}Targets ARCHIVE DESTINATION ${{CMAKE_INSTALL_LIBDIR}})
install(FILES include/{name}.h DESTINATION ${{CMAKE_INSTALL_INCLUDEDIR}})
install(EXPORT {name}Targets NAMESPACE {name}:: FILE {name}Config.cmake
  DESTINATION ${{CMAKE_INSTALL_LIBDIR}}/cmake/{name})
write_basic_package_version_file(${{CMAKE_CURRENT_BINARY_DIR}}/{name}ConfigVersion.cmake
  COMPATIBILITY SameMajorVersion)
install(FILES ${{CMAKE_CURRENT_BINARY_DIR}}/{name}ConfigVersion.cmake
  DESTINATION ${{CMAKE_INSTALL_LIBDIR}}/cmake/{name})

# the example is built where this is the project, and not where it is a part of another
if(CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR)
  enable_testing()
  add_executable({name}_example examples/main.c)
  target_link_libraries({name}_example PRIVATE {name})
  add_test(NAME {name}_example COMMAND {name}_example)
endif()
"""

_TOOLCHAIN = """\
# For a {cpu}: the compiler, its flags, and {board} under qemu for programs that CMake runs (picolibc, semihosting).
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR {processor})
set(CMAKE_C_COMPILER {prefix}gcc)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_C_FLAGS_INIT "--specs=picolibc.specs {flags} -ffunction-sections -fdata-sections")
# the memories are those of {board}; for another board: -DFLASH=0x8000000 -DFLASH_SIZE=0x80000 -DRAM_SIZE=0x20000
{memories}
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES FLASH FLASH_SIZE RAM RAM_SIZE STACK_SIZE)
set(CMAKE_EXE_LINKER_FLAGS_INIT "--oslib=semihost --crt0=hosted -Wl,--gc-sections\
 -Wl,--defsym=__flash=${{FLASH}} -Wl,--defsym=__flash_size=${{FLASH_SIZE}}\
 -Wl,--defsym=__ram=${{RAM}} -Wl,--defsym=__ram_size=${{RAM_SIZE}} -Wl,--defsym=__stack_size=${{STACK_SIZE}}")
set(CMAKE_EXECUTABLE_SUFFIX_C .elf)
set(CMAKE_CROSSCOMPILING_EMULATOR
  {emulator})
"""

#: Bytes of stack of the example.
_STACK = 0x4000
#: Bytes of the tightly coupled memory that holds a Cortex-M55's first code on mps3-an547.
_FIRST_CODE = 0x80000
_QEMU = "-nographic;-monitor;none;-serial;null;-semihosting-config;enable=on,target=native;-kernel"


def cmake_project(sources: Sources) -> dict[str, str]:
    """The project's files by path."""
    name = sources.name
    libm = f"target_link_libraries({name} PUBLIC m)\n" if sources.needs_libm else ""
    files = {
        "CMakeLists.txt": _LISTS.format(
            name=name,
            sentence=sources.sentence,
            version=VERSION,
            options=" ".join(OPTIONS),
            gcc=";".join(GCC_OPTIONS),
            libm=libm,
        ),
        f"src/{name}.c": sources.source,
        f"include/{name}.h": sources.header,
        "examples/main.c": main_text(sources),
    }
    board = _board_for(sources.cpu)
    if board is not None:
        files[f"cmake/{sources.cpu}.cmake"] = _toolchain(sources.cpu, board)
    return files


def _board_for(cpu: str) -> Board | None:
    """The board under qemu that has this processor, or runs its code; None for none."""
    if cpu not in FLAGS:
        return None
    same = [board for board in BOARDS.values() if board.cpu == cpu]
    return same[0] if same else BOARDS["virt" if cpu.startswith("riscv") else "mps2-an385"]


def _toolchain(cpu: str, board: Board) -> str:
    size = board.code[1] if board.vectors == board.code[0] else _FIRST_CODE
    memories = {"FLASH": board.vectors, "FLASH_SIZE": size, "RAM": board.ram[0], "RAM_SIZE": board.ram[1]}
    memories["STACK_SIZE"] = _STACK
    return _TOOLCHAIN.format(
        cpu=cpu,
        board=board.name,
        processor="arm" if cpu.startswith("cortex") else "riscv32",
        prefix=board.prefix,
        flags=" ".join(FLAGS[cpu]),
        memories="\n".join(f'set({name} {value:#x} CACHE STRING "")' for name, value in memories.items()),
        emulator=";".join([*board.emulator, _QEMU]),
    )
