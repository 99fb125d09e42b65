"""The bytes of a backing store, below the volume that is on it."""

import os

PAGE = 4096
SECTOR = 512
PIECE = 1 << 20


def pages(path):
    """Yields the place and the bytes of each page that is not all zero."""
    blank = bytes(PIECE)
    with open(path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        for start in range(0, size, PIECE):
            piece = os.pread(file.fileno(), min(PIECE, size - start), start)
            if piece == blank:
                continue
            for at in range(0, len(piece), PAGE):
                page = piece[at : at + PAGE]
                if page.strip(b"\0"):
                    yield start + at, page


def copy(source, target):
    """Copies what is not zero onto a larger store of zeros, and flushes it."""
    file = os.open(target, os.O_WRONLY)
    try:
        for at, page in pages(source):
            os.pwrite(file, page, at)
        os.fsync(file)
    finally:
        os.close(file)


def places(path, wanted):
    """Returns the places of each of these pages: {page: [place]}."""
    found = {page: [] for page in wanted}
    for at, page in pages(path):
        if page in found:
            found[page].append(at)
    return found


def rot(path, at, bit):
    """Changes a bit of the page at `at`, durably, and flushes nothing else: a synced write covers itself alone."""
    at += bit // 8 // SECTOR * SECTOR
    file = os.open(path, os.O_RDWR | os.O_DSYNC)
    try:
        sector = bytearray(os.pread(file, SECTOR, at))
        sector[bit // 8 % SECTOR] ^= 1 << bit % 8
        os.pwrite(file, bytes(sector), at)
    finally:
        os.close(file)
