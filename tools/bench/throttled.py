"""Bounds the pages of one block device that the page cache may have dirty, so that buffered writes wait for the device.

The bound is of the device alone (/sys/class/bdi/*/max_bytes and strict_limit): other programs of this machine keep theirs. It is taken
away however the measurement ends.
"""

import contextlib
import os


def folder_of(device):
    number = os.stat(device).st_rdev
    return f"/sys/class/bdi/{os.major(number)}:{os.minor(number)}"


def write(path, value):
    with open(path, "w", encoding="ascii") as file:
        file.write(str(value))


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read().strip()


@contextlib.contextmanager
def throttled(device, bytes_max):
    """Bounds the dirty pages of a device to this number of bytes."""
    folder = folder_of(device)
    # The kernel keeps a bound in bytes as a share, so the share is what is put back.
    before = {name: read(os.path.join(folder, name)) for name in ("strict_limit", "max_ratio_fine")}
    try:
        write(os.path.join(folder, "max_bytes"), bytes_max)
        write(os.path.join(folder, "strict_limit"), 1)
        yield
    finally:
        for name, value in before.items():
            write(os.path.join(folder, name), value)
