"""Reads what several streams have written at the same time, on a store slowed to the tablet model, over FUSE and loop.

Four writers write in turn, each into files of its own, which are its stream by rules about LBNs. Of the second version of a file one half
repeats what the first one has, in runs of 256 KiB, and is found as duplicates; the other half is new. The second versions are then read in
sequence and at random, directly, in turns with the same on `--passthrough`. Reads are compared where streams have containers, where there
are no streams, and with `--min-run`. The content does not compress: packs would make the reads shorter.

- containers-read: sequential reads of 128 KiB, as a share of what --passthrough reads in a second, with streams, the least of both modes.
- containers-commands: the commands by which the device is read for that, for each request, the first time, with the volume's own pages.
- containers-random: random reads of 4 KiB with streams, as a share of those without, the least of both modes.
"""

import functools
import mmap
import os
import random
import statistics
import time

from block import MIB, UNIT, Attached, call, onefold, roomy
from hinted import must

WRITERS = 4
FILE_BYTES = 16 * MIB
# A writer's turn: what a program hands over at once, while others do the same.
TURN_BYTES = 32 << 10
RUN_BYTES = 256 << 10
READ_BYTES = 128 << 10
RANDOM_READS = 1500
PAIRS = 7
MODEL = "tablet"
SIZE = 1 << 30
MIN_RUN = "4"


def first_byte(writer, version):
    return (writer * 2 + version) * FILE_BYTES


def versions(seed):
    """Returns the content of each writer's two versions."""
    draw = random.Random(seed)
    made = []
    for _ in range(WRITERS):
        old = draw.randbytes(FILE_BYTES)
        runs = [(at, draw.random() < 0.5) for at in range(0, FILE_BYTES, RUN_BYTES)]
        new = b"".join(old[at : at + RUN_BYTES] if same else draw.randbytes(RUN_BYTES) for at, same in runs)
        made.append((old, new))
    return made


class Direct:
    """A block device, read and written directly."""

    def __init__(self, path):
        self.file = os.open(path, os.O_RDWR | os.O_DIRECT)
        self.buffer = mmap.mmap(-1, READ_BYTES)

    def write(self, at, content):
        self.buffer[: len(content)] = content
        os.pwrite(self.file, memoryview(self.buffer)[: len(content)], at)

    def read(self, at, length):
        return os.preadv(self.file, [memoryview(self.buffer)[:length]], at)

    def sync(self):
        os.fsync(self.file)

    def close(self):
        os.close(self.file)
        self.buffer.close()


def write_in_turn(device, contents):
    for version in (0, 1):
        for at in range(0, FILE_BYTES, TURN_BYTES):
            for writer in range(WRITERS):
                device.write(first_byte(writer, version) + at, contents[writer][version][at : at + TURN_BYTES])
        device.sync()


def read_in_sequence(device):
    """Returns the bytes that were read in a second."""
    began = time.monotonic()
    for writer in range(WRITERS):
        for at in range(0, FILE_BYTES, READ_BYTES):
            device.read(first_byte(writer, 1) + at, READ_BYTES)
    return WRITERS * FILE_BYTES / (time.monotonic() - began)


def read_at_random(device, seed):
    """Returns the reads in a second."""
    draw = random.Random(seed)
    began = time.monotonic()
    for _ in range(RANDOM_READS):
        device.read(first_byte(draw.randrange(WRITERS), 1) + draw.randrange(FILE_BYTES // UNIT) * UNIT, UNIT)
    return RANDOM_READS / (time.monotonic() - began)


class Store:
    """A store with the writers' files, attached anew for reading."""

    def __init__(self, directory, name, seed, mode=None, streams=False, more=()):
        self.path = os.path.join(directory, f"contained-{name}")
        self.volume, self.device = None, None
        contents = versions(seed)
        words = () if mode else ("--passthrough",)
        if mode:
            onefold.run("create", "--size", f"{SIZE >> 20}M", "--commit-mode", mode, self.path)
        else:
            call("truncate", "-s", SIZE, self.path)
        if streams:
            for writer in range(WRITERS):
                first = first_byte(writer, 0) // UNIT
                onefold.run("hint", "add", self.path, "--stream", f"w{writer}", "--lbn", f"{first}-{first + 2 * FILE_BYTES // UNIT - 1}")
        try:
            self.volume = Attached(self.path, *words, *more)
            self.open()
            write_in_turn(self.device, contents)
            self.found(streams)
            # Nothing that was written stays in memory.
            self.close_device()
            self.volume = Attached(self.path, *words, "--device-model", MODEL)
            self.open()
        except BaseException:
            self.close()
            raise

    def found(self, streams):
        stats = onefold.report("stats", self.path)
        if stats["passthrough"]:
            return
        half = WRITERS * FILE_BYTES // UNIT // 2
        must(stats["dedup"]["duplicates"] > 0.7 * half, f"too few duplicates: {stats['dedup']}")
        containers = sum(stream["containers"] for stream in stats["streams"])
        must((containers >= 2 * WRITERS) == streams, f"{containers} containers")

    def commands(self):
        """Returns the commands that one sequential pass has the device do, for each request."""

        def done():
            counts = onefold.report("stats", self.path)["device"]
            return sum(count["operations"] for count in counts if count["what"].startswith("read"))

        before = done()
        read_in_sequence(self.device)
        return round((done() - before) * READ_BYTES / (WRITERS * FILE_BYTES), 3)

    def extents(self):
        """Returns the runs of neighbouring blocks in which the second versions lie."""
        return onefold.report("stats", self.path, "--extents")["extents"]

    def open(self):
        self.device = Direct(self.volume.device)

    def close_device(self):
        if self.device:
            self.device.close()
            self.device = None
        if self.volume:
            self.volume.detach()
            self.volume = None

    def close(self):
        self.close_device()
        os.unlink(self.path)


CASES = {
    "streams": {"streams": True},
    "no streams": {},
    f"no streams, --min-run {MIN_RUN}": {"more": ("--min-run", MIN_RUN)},
}


@functools.cache
def measured(directory, seed):
    """Returns for each mode and case the medians of the pairs with --passthrough: sequential reads, and random ones."""
    made = {}
    stores = []
    try:
        bare = Store(directory, "bare", seed)
        stores.append(bare)
        for mode in ("log", "ordered"):
            cases = {}
            for name, case in CASES.items():
                cases[name] = Store(directory, f"{mode}-{len(stores)}", seed, mode, **case)
                stores.append(cases[name])
            commands = {name: store.commands() for name, store in cases.items()}
            pairs = {name: {"sequential": [], "random": []} for name in cases}
            for turn in range(PAIRS):
                plain = (read_in_sequence(bare.device), read_at_random(bare.device, seed + turn))
                for name, store in cases.items():
                    pairs[name]["sequential"].append(read_in_sequence(store.device) / plain[0])
                    pairs[name]["random"].append(read_at_random(store.device, seed + turn) / plain[1])
            for name, store in cases.items():
                extents = store.extents()
                medians = {what: round(statistics.median(ratios), 3) for what, ratios in pairs[name].items()}
                spread = [round(ratio, 3) for ratio in sorted(pairs[name]["sequential"])]
                made[mode, name] = {**medians, "commands": commands[name], "pairs": spread, "extents": extents["extents"]}
    finally:
        for store in stores:
            store.close()
    return made


def run(name, options):
    made = measured(roomy(options).dir, options.seed)
    details = {f"{mode}, {case}": of for (mode, case), of in made.items()}
    if name == "containers-read":
        value = min(made[mode, "streams"]["sequential"] for mode in ("log", "ordered"))
    elif name == "containers-commands":
        value = max(made[mode, "streams"]["commands"] for mode in ("log", "ordered"))
    else:
        value = min(made[mode, "streams"]["random"] / made[mode, "no streams"]["random"] for mode in ("log", "ordered"))
    return {"value": round(value, 3), "model": MODEL, **details}
