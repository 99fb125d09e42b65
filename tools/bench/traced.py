"""The kernel's own account of bios and of BPF: what the observer's figures are compared with.

1. `Trace` reads the tracepoint block:block_bio_queue of one disk by tracefs, in a buffer of its own. It shares no code with the observer,
   and a single lost event fails it.
2. `BpfOf` finds the BPF objects of one process by its descriptors, so that objects of others do not count.
"""

import collections
import contextlib
import glob
import json
import os
import re
import subprocess
import time

from block import SECTOR, UNIT, call, onefold

EVENT = "events/block/block_bio_queue"
LINE = re.compile(r"block_bio_queue: \d+,\d+ (\w+) (\d+) \+ (\d+) \[(.*)\]$")
MINOR_BITS = 20
BUFFER_KIB = 32 << 10
STATS = "/proc/sys/kernel/bpf_stats_enabled"


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(str(text))


class Trace:
    """The bios of one disk from now on, until `end`."""

    def __init__(self, folder, device):
        self.tracefs, self.text = os.path.join(folder, "tracefs"), os.path.join(folder, "trace.txt")
        self.undo = contextlib.ExitStack()
        os.mkdir(self.tracefs)
        call("mount", "-t", "tracefs", "none", self.tracefs)
        self.undo.callback(lambda: call("umount", "-l", self.tracefs))
        self.instance = os.path.join(self.tracefs, "instances", f"onefold-{os.getpid()}")
        try:
            os.mkdir(self.instance)
            self.undo.callback(lambda: os.rmdir(self.instance))
            self.begin(device)
        except BaseException:
            self.undo.close()
            raise

    def begin(self, device):
        number = os.stat(device).st_rdev
        write(f"{self.instance}/buffer_size_kb", BUFFER_KIB)
        write(f"{self.instance}/{EVENT}/filter", f"dev == {os.major(number) << MINOR_BITS | os.minor(number)}")
        with open(self.text, "wb") as out:
            self.reader = subprocess.Popen(["cat", f"{self.instance}/trace_pipe"], stdout=out)
        self.undo.callback(self.stop)
        write(f"{self.instance}/{EVENT}/enable", 1)

    def stop(self):
        write(f"{self.instance}/{EVENT}/enable", 0)
        self.reader.terminate()
        self.reader.wait()

    def per_processor(self, what):
        found = 0
        for path in glob.glob(f"{self.instance}/per_cpu/cpu*/stats"):
            with open(path, encoding="ascii") as file:
                found += int(re.search(rf"^{what}: (\d+)", file.read(), re.M).group(1))
        return found

    def end(self):
        """Ends the trace, and returns its writes: (flags, first sector, sectors, process) of each bio, in order."""
        write(f"{self.instance}/{EVENT}/enable", 0)
        onefold.wait_for(lambda: self.per_processor("entries") == 0, 60, "the trace to be read")
        time.sleep(1)
        lost = self.per_processor("overrun") + self.per_processor("dropped events")
        self.undo.close()
        if lost:
            raise onefold.Failed(f"the trace has lost {lost} events, and proves nothing")
        with open(self.text, encoding="utf-8", errors="replace") as file:
            found = [match.groups() for match in map(LINE.search, file) if match]
        os.unlink(self.text)
        # A flag before the operation is that of a flush before the write; "WZ" writes zeroes.
        return [(flags, int(at), int(sectors), comm) for flags, at, sectors, comm in found if int(sectors) and is_write(flags)]


def is_write(flags):
    operation = flags[1:] if flags[0] == "F" and len(flags) > 1 else flags
    return operation[0] == "W" and not operation.startswith("WZ")


def is_meta(flags):
    return "M" in flags


def by_process(bios):
    """Returns the blocks that each process submitted."""
    found = collections.Counter()
    for _, _, sectors, comm in bios:
        found[comm] += sectors * SECTOR // UNIT
    return found


class BpfOf:
    """The BPF objects that a process holds: its links, their programs, and the maps of those."""

    def __init__(self, pid):
        self.ids, self.runs = {"link": set(), "prog": set(), "map": set()}, {}
        for path in glob.glob(f"/proc/{pid}/fdinfo/*"):
            try:
                with open(path, encoding="ascii") as file:
                    fields = dict(line.split(":", 1) for line in file if ":" in line)
            except OSError:
                continue
            for kind in ("link", "prog"):
                if f"{kind}_id" in fields:
                    self.ids[kind].add(int(fields[f"{kind}_id"]))
        for one in self.ids["prog"]:
            program = json.loads(call("bpftool", "--json", "prog", "show", "id", one))
            self.ids["map"].update(program.get("map_ids", ()))
            self.runs[one] = (program.get("run_time_ns", 0), program.get("run_cnt", 0))

    def count(self):
        return sum(map(len, self.ids.values()))

    def left(self):
        """Returns those that the kernel still has."""
        return [f"{kind} {one}" for kind, ids in self.ids.items() for one in ids if has(kind, one)]

    def since(self, before):
        """Returns the nanoseconds and the runs of the programs since then."""
        if self.ids["prog"] != before.ids["prog"] or len(self.runs) != 1:
            raise onefold.Failed("the observer has begun anew meanwhile, or has several programs")
        (now,), (then,) = self.runs.values(), before.runs.values()
        return now[0] - then[0], now[1] - then[1]


def has(kind, number):
    return subprocess.run(["bpftool", kind, "show", "id", str(number)], capture_output=True, check=False).returncode == 0


@contextlib.contextmanager
def statistics():
    """Has the kernel count the time of BPF programs meanwhile."""
    with open(STATS, encoding="ascii") as file:
        before = file.read().strip()
    write(STATS, 1)
    try:
        yield
    finally:
        write(STATS, before)
