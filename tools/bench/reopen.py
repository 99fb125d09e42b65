"""Opens a volume in commit mode `log` after a kill, when its log was nearly as full as possible."""

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
    """Synced writes until a log is full: it takes nearly all of its share of memory, or has nearly all of its units, in a scan that is
    nearly as long as possible before the log is compacted."""

    FULL = 0.9
    # docs/log.md, *Units of the log*: units to scan and compacted units.
    UNITS_MAX = 4096
    WRITES_MAX = 4_000_000

    def __init__(self, handle, store, seed, first, span, flush_every):
        self.handle, self.store, self.first, self.span, self.flush_every = handle, store, first, span, flush_every
        self.number, self.longest = 0, 0
        self.random = random.Random(seed)
        self.half = bytes(BLOCK // 2)

    def write(self, commits):
        """Writes unique blocks that compress to half, at random places."""
        for _ in range(commits):
            for _ in range(self.flush_every):
                content = self.random.randbytes(BLOCK // 2) + self.half
                self.handle.pwrite(content, self.first + self.random.randrange(self.span // BLOCK) * BLOCK)
            self.handle.flush()
        self.number += commits * self.flush_every

    def now(self):
        """Returns the bytes of live records and of their share, the units to scan, and the compacted units."""
        said = onefold.report("stats", self.store)
        records = next(part for part in said["memory"] if part["part"] == "log records")
        space = said["space"]
        return records["used_bytes"], records["limit_bytes"], space["log_scan_units"], space["log_compacted_units"]

    def fill(self):
        """Fills the log, and returns what it holds then."""
        few = max(1, 128 // self.flush_every)
        commits = few
        while self.number < self.WRITES_MAX:
            self.write(commits)
            used, share, walk, compacted = self.now()
            self.longest = max(self.longest, walk)
            fullness = max(used / share, (walk + compacted) / self.UNITS_MAX)
            if fullness >= self.FULL and walk >= self.FULL * self.longest:
                return {
                    "writes": self.number,
                    "live records, MiB": round(used / MIB, 2),
                    "units to scan": walk,
                    "compacted units": compacted,
                }
            # The state is asked for rarely while the log is far from full, because a question takes as long as a hundred writes.
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
        # This is more than the reserve, which is one run of free blocks: from now on discarded blocks are reclaimed.
        for _ in range(12_000):
            at = cls.FIRST + draw.randrange(cls.SPAN // BLOCK - 4) * BLOCK
            handle.pwrite(draw.randbytes(draw.randint(1, 4) * BLOCK), at)
        handle.flush()


def states(store, over):
    """Collects the states that the volume reports, as often as possible, until `over`."""
    found = []
    while not over.is_set():
        done = onefold.run("status", store, "--json", check=False)
        attached = json.loads(done.stdout)["attached"] if done.returncode == 0 else None
        state = attached["condition"]["state"] if attached else None
        if state and state not in found:
            found.append(state)
    return found


def crashed(options, flush_every, memory, kind=Plain):
    """Kills a volume with a full log on this machine's disk, and returns what its opening reads until the first read is answered, and how
    long that takes."""
    with Place(options) as place:
        store = place.file("large")
        # It is filled where flushes take no time, because that takes hundreds of thousands of them.
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
            # Asking takes processor time of its own, so it is done only if the time does not matter.
            states_seen = threads.submit(states, store, over) if memory != DEFAULT_MEMORY else None
            handle.pread(BLOCK, kind.READ)
            milliseconds = (time.monotonic() - began) * 1000
            over.set()
            counts = onefold.report("stats", store)["device"]
            read = {count["what"][5:]: count["bytes"] for count in counts if count["what"].startswith("read ")}
            said = states_seen.result() if states_seen else None
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
        "blocks of a run that the log tail names": round(statistics.mean(blocks for _, blocks in anchor["places"]), 2),
        "peak MiB": round(peak, 1),
    }
    return made if said is None else {**made, "reported states": said, "logged": logged}


def reopen(options, memory=DEFAULT_MEMORY):
    """Returns the worst of logs filled by synced single writes, by commits of 32 and by large commits, and of one on a fragmented
    volume."""
    made = {f"a flush every {every}": crashed(options, every, memory) for every in (1, 32, 2048)}
    return made, {**made, "fragmented, a flush every 1": crashed(options, 1, memory, Fragmented)}


def run(name, options):
    plain, made = reopen(options, "2M" if name == "log-reopen-small" else DEFAULT_MEMORY)
    # The time counts only for volumes that are not fragmented, the bytes for both.
    value = max(crash["MiB"] for crash in made.values()) if name == "log-reopen-bytes" else max(crash["ms"] for crash in plain.values())
    return {"value": value, **made}
