"""One side of a transfer of GPU memory by a fabric handle, with libcuda only.

    fabric_memory.py export FILE   allocates, writes a word, exports to FILE, waits for FILE.done
    fabric_memory.py import FILE   waits for FILE, imports, maps, reads the word

Prints one line of JSON: the channels that this process sees and has opened, and either `done` or the failed call with
CUDA's name of the error.
"""

import ctypes
import json
import os
import sys
import time

CHANNEL_DIR = "/dev/nvidia-caps-imex-channels"
SIZE = 2 << 20  # The granularity of allocations, in bytes.
WORD = 0x1234ABCD
GIVE_UP_SECONDS = 30
FABRIC = 8  # CU_MEM_HANDLE_TYPE_FABRIC
PINNED = 1  # CU_MEM_ALLOCATION_TYPE_PINNED
DEVICE = 1  # CU_MEM_LOCATION_TYPE_DEVICE
READ_WRITE = 3  # CU_MEM_ACCESS_FLAGS_PROT_READWRITE


class AllocationProp(ctypes.Structure):
    """CUmemAllocationProp of cuda.h."""

    _fields_ = [
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location_type", ctypes.c_int),
        ("location_id", ctypes.c_int),
        ("win32", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    ]


class AccessDesc(ctypes.Structure):
    """CUmemAccessDesc of cuda.h."""

    _fields_ = [("location_type", ctypes.c_int), ("location_id", ctypes.c_int), ("flags", ctypes.c_int)]


class Refused(Exception):
    """A call that returned an error."""


class Cuda:
    """libcuda, with a context on the first GPU."""

    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, function, *arguments):
        code = getattr(self.lib, function)(*arguments)
        if code:
            name = ctypes.c_char_p()
            self.lib.cuGetErrorName(code, ctypes.byref(name))
            raise Refused(f"{function}: {(name.value or str(code).encode()).decode()}")

    def mapped(self, memory):
        """Maps the memory; returns its address."""
        zero, size, address = ctypes.c_ulonglong(0), ctypes.c_size_t(SIZE), ctypes.c_ulonglong()
        self.call("cuMemAddressReserve", ctypes.byref(address), size, ctypes.c_size_t(0), zero, zero)
        self.call("cuMemMap", address, size, ctypes.c_size_t(0), memory, zero)
        access = AccessDesc(DEVICE, 0, READ_WRITE)
        self.call("cuMemSetAccess", address, size, ctypes.byref(access), ctypes.c_size_t(1))
        return address

    def export(self, file):
        memory, handle, prop = ctypes.c_ulonglong(), (ctypes.c_ubyte * 64)(), AllocationProp(PINNED, FABRIC, DEVICE, 0)
        size, zero = ctypes.c_size_t(SIZE), ctypes.c_ulonglong(0)
        self.call("cuMemCreate", ctypes.byref(memory), size, ctypes.byref(prop), zero)
        self.call("cuMemsetD32_v2", self.mapped(memory), WORD, ctypes.c_size_t(1024))
        self.call("cuCtxSynchronize")
        self.call("cuMemExportToShareableHandle", handle, memory, FABRIC, zero)
        write(file, bytes(handle))

    def import_(self, file):
        with open(file, "rb") as handle:
            handle = (ctypes.c_ubyte * 64)(*handle.read())
        memory, word = ctypes.c_ulonglong(), ctypes.c_uint()
        self.call("cuMemImportFromShareableHandle", ctypes.byref(memory), handle, FABRIC)
        address = self.mapped(memory)
        self.call("cuMemcpyDtoH_v2", ctypes.byref(word), address, ctypes.c_size_t(4))
        if word.value != WORD:
            raise Refused(f"read {word.value:#x} instead of {WORD:#x}")


def write(file, content):
    """Writes atomically: the other side never reads a partial file."""
    with open(file + ".new", "wb") as new:
        new.write(content)
    os.rename(file + ".new", file)


def wait_for(file):
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while not os.path.exists(file):
        if time.monotonic() > deadline:
            raise Refused(f"no {file} after {GIVE_UP_SECONDS} s")
        time.sleep(0.05)


def opened():
    """The channels that this process has open."""
    links = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except FileNotFoundError:
            pass  # The descriptor of listdir itself.
    return sorted(os.path.basename(link) for link in links if link.startswith(CHANNEL_DIR))


def main(side, file):
    seen = sorted(os.listdir(CHANNEL_DIR)) if os.path.isdir(CHANNEL_DIR) else []
    result, cuda = {"side": side, "sees": len(seen)}, None
    try:
        cuda = Cuda()
        if side == "import":
            wait_for(file)
            cuda.import_(file)
        else:
            cuda.export(file)
        result["outcome"] = "done"
    except Refused as refused:
        result["outcome"] = str(refused)
    result["opened"] = opened()
    print(json.dumps(result), flush=True)
    if side == "import":
        write(file + ".done", b"")
    elif result["outcome"] == "done":
        # The driver frees the memory when the process that allocated it ends.
        wait_for(file + ".done")


if __name__ == "__main__":
    main(*sys.argv[1:3])
