"""Opening a volume in commit mode `log` after a kill, when its log was nearly as long as it gets."""

import concurrent.futures
import json
import random
import statistics
import subprocess
import threading
import time

import live
import nbd
from block import onefold
from live import GIB, MIB, Place, client

CREATE = ("--commit-mode", "log")
BLOCK = 4096
DEFAULT_MEMORY = "64M"


class Filling:
    """Writes that lengthen a log, and how long it is: in units since the superblock, which has its anchor, was written last."""

    PIECE = 64

    def __init__(self, handle, store, seed, first, span, flush_every):
        self.handle, self.store, self.first, self.span, self.flush_every = handle, store, first, span, flush_every
        self.number = 0
        self.random = random.Random(seed)
        self.half = bytes(BLOCK // 2)

    def counts(self):
        device = {count["what"]: count["operations"] for count in onefold.report("stats", self.store)["device"]}
        return device["write superblock"], device["write log"]

    def write(self):
        """Unique blocks that come to half, at random places."""
        draw, failed, flying = self.random, [], [0]

        def done(error):
            flying[0] -= 1
            if error:
                failed.append(error)
            return 1

        for _ in range(self.PIECE):
            while flying[0] >= 64:
                self.handle.poll(-1)
            body = nbd.Buffer.from_bytearray(bytearray(draw.randbytes(BLOCK // 2) + self.half))
            flying[0] += 1
            self.handle.aio_pwrite(body, self.first + draw.randrange(self.span // BLOCK) * BLOCK, completion=done)
            self.number += 1
            if self.number % self.flush_every == 0:
                while flying[0]:
                    self.handle.poll(-1)
                self.handle.flush()
        while flying[0]:
            self.handle.poll(-1)
        if failed:
            raise onefold.Failed(f"{len(failed)} writes failed")

    def fill(self):
        """Until the walk is nearly as long as it was when one of the checkpoints before ended; its units."""
        superblocks, anchor = self.counts()
        longest, checkpoints = 0, 0
        while True:
            self.write()
            here, units = self.counts()
            if here != superblocks:
                # What was written meanwhile counts for the next one.
                superblocks, checkpoints = here, checkpoints + 1
                anchor = units
            else:
                longest = max(longest, units - anchor)
            if checkpoints >= 2 and units - anchor >= 0.9 * longest > 0:
                return units - anchor


class Plain:
    """A volume of 64 GiB, nearly empty."""

    CREATE = ("--size", "64G", "--sparse")
    FIRST, SPAN, READ = 0, 60 * GIB, 123 * MIB

    @staticmethod
    def prepare(_, __):
        pass


class Fragmented:
    """A volume of 4 GiB whose free blocks lie in runs of one to four.

    It was written in sequence, so the holes that are discarded are holes of the volume; blocks are reclaimed where most can be.
    """

    BLOCKS = 7 * GIB // 2 // BLOCK
    CREATE = ("--size", "4G", "--sparse")
    FIRST, SPAN, READ = BLOCKS * BLOCK, 384 * MIB, 0

    @classmethod
    def prepare(cls, handle, seed):
        draw = random.Random(seed)
        for at in range(0, cls.BLOCKS * BLOCK, MIB):
            handle.pwrite(draw.randbytes(MIB), at)
        handle.flush()
        at = 1
        while at + 4 < cls.BLOCKS:
            blocks = draw.randint(1, 4)
            handle.trim(blocks * BLOCK, at * BLOCK)
            at += blocks + draw.randint(1, 4)
        handle.flush()
        for at in range(cls.FIRST, cls.FIRST + cls.SPAN, MIB):
            handle.pwrite(draw.randbytes(MIB), at)
        handle.flush()
        # More than the reserve, which is one run of free blocks: from here on what was discarded is reclaimed.
        for _ in range(12_000):
            at = cls.FIRST + draw.randrange(cls.SPAN // BLOCK - 4) * BLOCK
            handle.pwrite(draw.randbytes(draw.randint(1, 4) * BLOCK), at)
        handle.flush()


def states(store, over):
    """What the volume says of itself, as often as can be asked, until `over`."""
    found = []
    while not over.is_set():
        done = onefold.run("status", store, "--json", check=False)
        attached = json.loads(done.stdout)["attached"] if done.returncode == 0 else None
        state = attached["condition"]["state"] if attached else None
        if state and state not in found:
            found.append(state)
    return found


def crashed(options, flush_every, memory, kind=Plain):
    """A volume whose log is full, killed, on this machine's disk: what its opening reads until the first read is answered, and how long that takes."""
    with Place(options) as place:
        store = place.file("large")
        onefold.run("create", store, *kind.CREATE, *CREATE)
        server = place.serve(store)
        with client(server) as handle:
            kind.prepare(handle, options.seed)
            log_units = Filling(handle, store, options.seed, kind.FIRST, kind.SPAN, flush_every).fill()
        server.kill()
        anchor = onefold.report("dump", store)["anchor"]
        subprocess.run(["sync", store], check=True)
        with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
            file.write("3")
        over = threading.Event()
        began = time.monotonic()
        server = place.serve(store, "--memory", memory)
        with concurrent.futures.ThreadPoolExecutor(1) as threads, client(server) as handle:
            # Asking takes processor time of its own: only where the time is not what counts.
            told = threads.submit(states, store, over) if memory != DEFAULT_MEMORY else None
            handle.pread(BLOCK, kind.READ)
            milliseconds = (time.monotonic() - began) * 1000
            over.set()
            read = {count["what"][5:]: count["bytes"] for count in onefold.report("stats", store)["device"] if count["what"].startswith("read ")}
            said = told.result() if told else None
        peak = live.peak_mib(server.process.pid)
        logged = onefold.report("status", store)["attached"]["condition"]["notices"]
        server.detach()
        sound = onefold.report("check", store)["sound"]
    if not sound:
        raise onefold.Failed("check finds damage after the detach")
    made = {
        "ms": round(milliseconds, 1),
        "MiB": round(sum(read.values()) / MIB, 2),
        "bytes read": read,
        "units since the last checkpoint": log_units,
        "blocks of a run that the anchor names": round(statistics.mean(blocks for _, blocks in anchor["places"]), 2),
        "peak MiB": round(peak, 1),
    }
    return made if said is None else {**made, "told when asked": said, "logged": logged}


def reopen(options, memory=DEFAULT_MEMORY):
    """The worse of logs that synced single writes, commits of 32 and large commits have filled, and of one on a fragmented volume."""
    made = {f"a flush every {every}": crashed(options, every, memory) for every in (1, 32, 2048)}
    return made, {**made, "fragmented, a flush every 1": crashed(options, 1, memory, Fragmented)}


def run(name, options):
    plain, made = reopen(options, "2M" if name == "log-reopen-small" else DEFAULT_MEMORY)
    # The time is asked of what is not fragmented, the bytes of both.
    value = max(crash["MiB"] for crash in made.values()) if name == "log-reopen-bytes" else max(crash["ms"] for crash in plain.values())
    return {"value": value, **made}
