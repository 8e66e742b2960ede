"""Files as the operating system has them: read past its page cache or from it."""

import ctypes
import mmap
import os

PAGE = 4096


def view(address, size):
    """Memory at an address as bytes that reads can fill."""
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B")


def available_memory():
    """Bytes of host memory that can be had, or None where the system does not tell."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return 1024 * int(line.split()[1])
    except OSError:
        pass
    return None


class Writer:
    """A new file that only its owner reads."""

    def __init__(self, path):
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.descriptor)

    def write(self, data):
        while data:
            data = data[os.write(self.descriptor, data) :]

    def flush(self):
        """Waits for the disk: pages that are still to be written cannot be dropped."""
        os.fsync(self.descriptor)


class Opened:
    """A file to read. cache says how: "direct" past the page cache, "dropped" after the system
    was asked to drop the file's pages (it need not), "warm" from the page cache, or "unknown"."""

    def __init__(self, descriptor, cache):
        self.descriptor, self.cache = descriptor, cache

    def read(self, into, at, size):
        """Reads into the buffer from a place; the last piece of a direct read is a whole page."""
        n = min(len(into), size - at)
        if self.cache == "direct":
            n = -(-n // PAGE) * PAGE
        return min(os.preadv(self.descriptor, [into[:n]], at), size - at)

    def close(self):
        os.close(self.descriptor)


def open_cold(path):
    """Opens a file that was flushed so that reads come from the disk, as far as the system
    lets us: a device's own cache, or that of a virtual machine's host, stays out of reach."""
    if hasattr(os, "O_DIRECT"):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
        except OSError:
            pass  # tmpfs, for one, has none
        else:
            if reads_directly(descriptor):
                return Opened(descriptor, "direct")
            os.close(descriptor)
    descriptor = os.open(path, os.O_RDONLY)
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return Opened(descriptor, "dropped")
    return Opened(descriptor, "unknown")


def reads_directly(descriptor):
    """Reports whether a page can be read; some file systems open a file and then refuse."""
    with mmap.mmap(-1, PAGE) as page:
        try:
            return os.preadv(descriptor, [page], 0) > 0
        except OSError:
            return False


def open_warm(path):
    return Opened(os.open(path, os.O_RDONLY), "warm")
