"""Measures the space that a tree takes on a volume in commit mode `log`, over either front-end, also after each of its files was
overwritten."""

import contextlib
import json
import os
import random
import subprocess
import time

import nbd
from block import Attached, onefold
from live import MIB, Place, client

BLOCK = 4096
PIECE = 64 * BLOCK
FLYING = 8
ROUNDS = 3
CREATE = ("--commit-mode", "log")
# Other parts of a tree, if all of it takes too long: paths separated by colons.
TREES = os.environ.get("ONEFOLD_BENCH_TREES", "/usr").split(":")
SAMPLES = 40


def files_below(top):
    """Lists the regular files and their sizes, in the order of their names."""
    found = []
    for folder, folders, names in os.walk(top):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path):
                found.append((path, os.path.getsize(path)))
    return found


class Tree:
    """Files side by side: the first block of each, and the total number of blocks."""

    def __init__(self, tops):
        self.files, self.blocks = [], 0
        for top in tops:
            for path, size in files_below(top):
                count = -(-size // BLOCK)
                self.files.append((path, self.blocks * BLOCK, count))
                self.blocks += count

    @staticmethod
    def pieces(path, blocks):
        """Yields the file as it was when the tree was listed, in pieces: zeros if it is shorter now."""
        with open(path, "rb") as file:
            left = blocks * BLOCK
            while left:
                data = file.read(min(PIECE, left))
                data += bytes(min(PIECE, left) - len(data))
                left -= len(data)
                yield data


class Writer:
    """Keeps a few writes under way, out of the same few buffers: libnbd's binding retains each buffer that it was given."""

    def __init__(self, handle):
        self.handle, self.failed = handle, 0
        self.spare = [bytearray(PIECE) for _ in range(FLYING)]

    def write(self, data, at):
        while not self.spare:
            self.handle.poll(-1)
        buffer = self.spare.pop()
        buffer[: len(data)] = data

        def done(error):
            self.spare.append(buffer)
            self.failed += bool(error)
            return 1

        self.handle.aio_pwrite(nbd.Buffer.from_buffer(memoryview(buffer)[: len(data)]), at, completion=done)

    def flush(self):
        while len(self.spare) < FLYING:
            self.handle.poll(-1)
        if self.failed:
            raise onefold.Failed(f"{self.failed} writes failed")
        self.handle.flush()


class OverNbd:
    """A volume that this process writes to over NBD."""

    def __init__(self, place, store):
        self.server = place.serve(store)

    @contextlib.contextmanager
    def writer(self):
        with client(self.server) as handle:
            writer = Writer(handle)
            yield writer
            writer.flush()

    def detach(self):
        self.server.detach()


class OverFuse:
    """A volume that this process writes to as a block device, through the page cache."""

    def __init__(self, _place, store):
        self.attached = Attached(store)

    @contextlib.contextmanager
    def writer(self):
        with open(self.attached.device, "r+b", buffering=0) as device:
            self.file = device
            yield self
            os.fsync(device.fileno())

    def write(self, data, at):
        if os.pwrite(self.file.fileno(), data, at) != len(data):
            raise onefold.Failed(f"a write at {at} was short")

    def detach(self):
        self.attached.detach()


def taken(store):
    """Returns the blocks that content takes, and those of the log beside it."""
    space = onefold.report("stats", store)["space"]
    log = (space["log_unit_blocks"] or 0) + (space["log_place_blocks"] or 0)
    return {"content": space["unique_blocks"] + space["shared_blocks"], "log": log, "kept": space["kept_blocks"]}


def all_counted(store):
    """Returns whether the census that an opening begins has ended."""
    return onefold.report("stats", store)["space"]["is_complete"]


def copied(tree, volume):
    """Copies the tree, and has the same blocks counted as `bound` packs them."""
    words = [os.environ["ONEFOLD_SIM"], "bound"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as bound:
        with volume.writer() as writer:
            for path, at, blocks in tree.files:
                for data in tree.pieces(path, blocks):
                    writer.write(data, at)
                    bound.stdin.write(data)
                    at += len(data)
        bound.stdin.close()
        counted = json.loads(bound.stdout.read())
    if bound.returncode != 0:
        raise onefold.Failed(f"onefold-sim bound ended with {bound.returncode}")
    return counted


def overwritten(tree, volume, store, draw, round_number):
    """Overwrites each file in another order, and returns the most blocks that were taken meanwhile. Each block is similar to the file's
    own, but new."""
    order = list(tree.files)
    draw.shuffle(order)
    most = taken(store)
    since = 0
    with volume.writer() as writer:
        for path, at, blocks in order:
            for data in tree.pieces(path, blocks):
                new = bytearray(data)
                for i in range(0, len(new), BLOCK):
                    new[i : i + 16] = round_number.to_bytes(8, "little") + ((at + i) // BLOCK).to_bytes(8, "little")
                writer.write(new, at)
                at += len(data)
            since += blocks
            if since >= tree.blocks // SAMPLES:
                since, now = 0, taken(store)
                most = max(most, now, key=lambda taken: taken["content"])
    return max(most, taken(store), key=lambda taken: taken["content"])


def space(options, over):
    """Measures the tree on a volume that is not thin."""
    tree = Tree(TREES)
    draw = random.Random(options.seed)
    with Place(options) as place:
        store = place.file("volume")
        onefold.run("create", store, "--size", f"{tree.blocks * BLOCK // MIB * 21 // 20 + 512}M", "--sparse", *CREATE)
        volume = over(place, store)
        began = time.monotonic()
        bound = copied(tree, volume)
        seconds = time.monotonic() - began
        packing = onefold.report("stats", store)["packing"]
        volume.detach()
        volume = over(place, store)
        onefold.wait_for(lambda: all_counted(store), 300, "the count of free blocks")
        copy = taken(store)
        # All of these are mapped from the first round on, including those that were zeros.
        rounds = [overwritten(tree, volume, store, draw, number + 1) for number in range(ROUNDS)]
        volume.detach()
        sound = onefold.report("check", store)["sound"]
    if not sound:
        raise onefold.Failed("check finds damage after the detach")
    return {
        "trees": TREES,
        "files": len(tree.files),
        "bound": bound,
        "copied": copy,
        "to the bound": round((copy["content"] + copy["log"]) / bound["units"], 4),
        "packing": packing,
        "MiB/s of the copy, bound's own time in it": round(tree.blocks * BLOCK / MIB / seconds, 1),
        "mapped": tree.blocks,
        "most while overwritten, by round": rounds,
        "to the mapped": round(max(most["content"] + most["log"] for most in rounds) / tree.blocks, 4),
    }


def run(name, options):
    made = space(options, OverFuse if name == "log-space-fuse" else OverNbd)
    return {"value": made["to the mapped" if name == "log-space-overwritten" else "to the bound"], **made}
