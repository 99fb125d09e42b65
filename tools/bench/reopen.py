"""Opening a volume in commit mode `log` after a kill, when its log was nearly as full as it gets."""

import concurrent.futures
import json
import os
import random
import statistics
import subprocess
import tempfile
import threading
import time

import live
from block import onefold
from live import GIB, MIB, Place, client

CREATE = ("--commit-mode", "log")
BLOCK = 4096
DEFAULT_MEMORY = "64M"
MEMORY_DIR = "/dev/shm"


class Filling:
    """Synced writes until a log is full: nearly all that its share of memory holds, or nearly all of its units, in a walk that is nearly as long
    as walks get before they are condensed."""

    FULL = 0.9
    # docs/log.md, *Units of the log*: walk and condensed ones.
    UNITS_MAX = 4096
    WRITES_MAX = 4_000_000

    def __init__(self, handle, store, seed, first, span, flush_every):
        self.handle, self.store, self.first, self.span, self.flush_every = handle, store, first, span, flush_every
        self.number, self.longest = 0, 0
        self.random = random.Random(seed)
        self.half = bytes(BLOCK // 2)

    def write(self, commits):
        """Unique blocks that come to half, at random places."""
        for _ in range(commits):
            for _ in range(self.flush_every):
                content = self.random.randbytes(BLOCK // 2) + self.half
                self.handle.pwrite(content, self.first + self.random.randrange(self.span // BLOCK) * BLOCK)
            self.handle.flush()
        self.number += commits * self.flush_every

    def now(self):
        """Bytes of live records and of their share, units of the walk, condensed ones."""
        said = onefold.report("stats", self.store)
        records = next(part for part in said["memory"] if part["part"] == "log records")
        space = said["space"]
        return records["used_bytes"], records["limit_bytes"], space["log_walk_units"], space["log_condensed_units"]

    def fill(self):
        """What the log holds then."""
        few = max(1, 128 // self.flush_every)
        commits = few
        while self.number < self.WRITES_MAX:
            self.write(commits)
            used, share, walk, condensed = self.now()
            self.longest = max(self.longest, walk)
            fullness = max(used / share, (walk + condensed) / self.UNITS_MAX)
            if fullness >= self.FULL and walk >= self.FULL * self.longest:
                return {"writes": self.number, "live records, MiB": round(used / MIB, 2), "units of the walk": walk, "condensed units": condensed}
            # Seldom asked while there is much to go, for asking takes as long as a hundred writes.
            commits = few if fullness >= self.FULL else 8 * few
        raise onefold.Failed(f"the log is not full after {self.number} writes")


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
        # Filled where flushes take no time, for it takes hundreds of thousands of them.
        with tempfile.TemporaryDirectory(prefix="onefold-bench.", dir=MEMORY_DIR) as memory_dir:
            filled = os.path.join(memory_dir, "large")
            onefold.run("create", filled, *kind.CREATE, *CREATE)
            server = place.serve(filled)
            with client(server) as handle:
                kind.prepare(handle, options.seed)
                log = Filling(handle, filled, options.seed, kind.FIRST, kind.SPAN, flush_every).fill()
            server.kill()
            subprocess.run(["cp", "--sparse=always", filled, store], check=True)
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
        "log": log,
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
