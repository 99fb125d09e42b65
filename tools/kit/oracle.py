"""The content that a block device may return after a crash, block by block.

1. A block has versions, one for each operation that was sent to it, in order; at most one operation on a block is under way at a time.
2. The floor is the oldest version that may still be read: raised by an acknowledged flush to what was acknowledged before that flush was
   sent, by an acknowledged FUA write to that write, and by every read after a recovery to what it returned (P1, P7 of docs/ordering.md).
3. A read after a recovery returns exactly one version from the floor on, whole (P2).

A version is a tuple of eight sector names; `content` turns it into bytes. Name 0 is the sector of zeros.
"""

import functools
import hashlib

BLOCK = 4096
SECTOR = 512
SECTORS = BLOCK // SECTOR
ZERO = (0,) * SECTORS


@functools.lru_cache(maxsize=65536)
def sector(name):
    """Returns the 512 bytes that are called `name`."""
    if name == 0:
        return bytes(SECTOR)
    # Eight names, mostly those of one block, compress alike: half of the blocks not at all, some to a half, some to little.
    noise = (SECTOR, SECTOR, SECTOR // 2, 40)[name // SECTORS % 4]
    return hashlib.shake_128(name.to_bytes(8, "little")).digest(noise).ljust(SECTOR, b"\0")


def content(version):
    """Returns the 4096 bytes of a version."""
    return b"".join(map(sector, version))


class Violation(Exception):
    """The device broke a promise."""


class Block:
    """One logical block: its versions from the floor on."""

    __slots__ = ("acked", "base", "busy", "versions")

    def __init__(self):
        self.versions = [ZERO]
        # The number of versions[0]: earlier versions were dropped, and none of them may be read any more.
        self.base = 0
        # The number of the newest acknowledged version.
        self.acked = 0
        self.busy = False

    def newest(self):
        return self.versions[-1]

    def add(self, version):
        """Notes that an operation is sent, and returns the number of its version."""
        self.versions.append(version)
        return self.base + len(self.versions) - 1

    def raise_floor(self, number):
        if number > self.base:
            del self.versions[: number - self.base]
            self.base = number


class Oracle:
    """All blocks of a device."""

    def __init__(self, blocks):
        self.blocks = [Block() for _ in range(blocks)]
        # The blocks with acknowledged versions above their floor.
        self.dirty = set()
        # The blocks that no load uses.
        self.apart = set()

    def set_apart(self, lbns):
        """Keeps the load away from some blocks: they count as busy forever."""
        self.apart = set(lbns)
        for lbn in lbns:
            self.blocks[lbn].busy = True

    def extend(self, blocks):
        """Knows of a device that has grown: its new blocks read as zeros."""
        if blocks < len(self.blocks):
            raise Violation(f"the device has {blocks} blocks, and had {len(self.blocks)}")
        self.blocks += [Block() for _ in range(blocks - len(self.blocks))]

    def runs(self, length):
        """Yields all runs of blocks of at most this length, but for those that are set apart: (first, number)."""
        first = 0
        for end in [*sorted(self.apart), len(self.blocks)]:
            for start in range(first, end, length):
                yield start, min(length, end - start)
            first = end + 1

    def acknowledge(self, lbn, number, fua):
        block = self.blocks[lbn]
        block.acked = max(block.acked, number)
        if fua:
            block.raise_floor(number)
        if block.acked > block.base:
            self.dirty.add(lbn)

    def flush_sent(self):
        """Returns what the acknowledgement of a flush that is sent now will promise."""
        return [(lbn, self.blocks[lbn].acked) for lbn in self.dirty]

    def flush_acknowledged(self, promise):
        for lbn, number in promise:
            block = self.blocks[lbn]
            block.raise_floor(number)
            if block.acked <= block.base:
                self.dirty.discard(lbn)

    def recovered(self, lbn, data):
        """Checks a read after a recovery that returned `data` for a block: it must be a version, which becomes the floor."""
        block = self.blocks[lbn]
        block.versions = [block.versions[self.newest_that_fits(lbn, data)]]
        block.base = block.acked = 0
        block.busy = False
        self.dirty.discard(lbn)

    def taken_over(self, lbn, data):
        """Checks a read after another server went on without a crash: nothing acknowledged is lost, and nothing else is durable yet."""
        block = self.blocks[lbn]
        place = self.newest_that_fits(lbn, data)
        if block.base + place < block.acked:
            raise Violation(f"acknowledged, and lost when another server went on: {self.describe(lbn, data)}")
        del block.versions[place + 1 :]
        block.busy = False
        self.acknowledge(lbn, block.base + place, False)

    def newest_that_fits(self, lbn, data):
        versions = self.blocks[lbn].versions
        for place in range(len(versions) - 1, -1, -1):
            if content(versions[place]) == data:
                return place
        raise Violation(self.describe(lbn, data))

    def served(self, lbn, number, data):
        """Checks a read without a crash since: it returns version `number`, the newest when it was sent, or one sent meanwhile."""
        block = self.blocks[lbn]
        if not any(content(version) == data for version in block.versions[max(0, number - block.base) :]):
            raise Violation(self.describe(lbn, data))

    def describe(self, lbn, data):
        block = self.blocks[lbn]
        held = [data[i * SECTOR : (i + 1) * SECTOR] for i in range(SECTORS)]
        kinds = []
        for i, part in enumerate(held):
            fits = [block.base + n for n, version in enumerate(block.versions) if sector(version[i]) == part]
            kinds.append(f"sector {i}: " + (f"version {fits}" if fits else "zeros" if not any(part) else "of no version"))
        others = [n for n, other in enumerate(self.blocks) if n != lbn and any(content(v) == data for v in other.versions)]
        return (
            f"block {lbn} reads as none of its versions {block.base}..{block.base + len(block.versions) - 1} "
            f"(acknowledged: {block.acked}); {'; '.join(kinds)}"
            + (f"; it is the content of block {others[:3]}" if others and any(data) else "")
        )
