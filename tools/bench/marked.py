"""Table 1 of Using Hints: how much of what a file system writes it marks as metadata, and how much of that is unique.

A load like Filebench's file server writes in blocks of 4 KiB to each file system that this kernel has, on a volume over FUSE and loop:
whole files are written, appended to, read and deleted, as fast as a disk of the paper's kind would take it. The files that are there before
are not counted. `onefold trace record` has the fingerprint of every block that arrives, and tracefs the kernel's mark of every bio; both
are joined block by block, in the order of their writes. The journal of ext4 has the mark, too. Its thread is no mark: it writes file data
as well (data=ordered). A content is a duplicate if any block was written with it before, on this file system, since it was made.

A run has its subject if nothing was lost, if file data were written as often as the load says, if at most one block in a thousand is in
only one of the two accounts, and if ext4's share of metadata is one of the paper's, 12 to 28 %, which the rate of the load decides.
The result is left in target/hints.json, which `./dev bench papers` shows.

Environment: ONEFOLD_BENCH_TABLE_1 (ext2,ext3,ext4,nilfs2,xfs,btrfs,f2fs) chooses, ONEFOLD_BENCH_TABLE_1_FILES (2500) and _SECONDS (60)
give the size, and _RATE the blocks a second.
"""

import collections
import csv
import json
import os
import platform
import random
import shutil
import subprocess
import time

from block import MIB, SECTOR, UNIT, call, onefold
from hinted import EXT4, Mounted, folder, must, number
from traced import Trace, is_meta

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FILE = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "hints.json")
LAZY = EXT4[2:]
# Blocks of 4 KiB everywhere, as the paper has them: XFS's log, too.
KINDS = {
    "ext2": ("mkfs.ext2", "-q", "-F", "-b", "4096"),
    "ext3": ("mkfs.ext3", "-q", *LAZY, "-b", "4096"),
    "ext4": ("mkfs.ext4", "-q", *LAZY, "-b", "4096"),
    "nilfs2": ("mkfs.nilfs2", "-q", "-f"),
    "xfs": ("mkfs.xfs", "-q", "-f", "-s", "size=4096"),
    "btrfs": ("mkfs.btrfs", "-q", "-f"),
    "f2fs": ("mkfs.f2fs", "-q", "-f"),
}
# Of Filebench's fileserver: mean size of a file and of what is appended, files for each folder, the part of the files that is there before.
FILE_UNITS, APPEND_UNITS, WIDTH = 32, 4, 20
BEFORE = 0.8
# Blocks a second: 680 KiB. The slower data are written, the larger is the part of metadata, which a journal commits every 5 s. The paper
# does not say its rate.
RATE = 170
# The shares of metadata in the paper's table: the least and the most. A load that gives ext4 another one is not the paper's.
SHARES = (0.116, 0.280)
UNKNOWN_MAX = 0.001
MADE = {}


def lacking(kind):
    """Returns why a file system cannot be measured, or None."""
    # A module that is there is loaded; a kernel without modules has no such tool.
    if modprobe := shutil.which("modprobe"):
        subprocess.run((modprobe, "-q", kind), capture_output=True, check=False)
    with open("/proc/filesystems", encoding="ascii") as file:
        known = {line.split()[-1] for line in file}
    if kind not in known:
        return f"kernel {platform.release()} does not have {kind}"
    tool = KINDS[kind][0]
    return None if shutil.which(tool) else f"{tool} is not installed"


class Server:
    """The load: operations on files in folders, with content that occurs once."""

    def __init__(self, at, files, rate, seed):
        self.at, self.files, self.rate, self.draw, self.written = at, files, rate, random.Random(seed), 0
        self.there, self.free = [], list(range(files))
        self.draw.shuffle(self.free)

    def path(self, count):
        return os.path.join(self.at, f"folder{count // WIDTH}", f"file{count}")

    def write(self, path, mode, units):
        """Writes blocks of 4 KiB, each by a call of its own."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, mode, buffering=0) as file:
            for _ in range(units):
                file.write(self.draw.randbytes(UNIT))
        self.written += units

    def create(self):
        count = self.free.pop()
        self.write(self.path(count), "wb", max(1, round(self.draw.gammavariate(1.5, FILE_UNITS / 1.5))))
        self.there.append(count)

    def round(self):
        """One round of Filebench's fileserver: create, append, read, delete, stat."""
        self.create()
        self.write(self.path(self.draw.choice(self.there)), "ab", max(1, round(self.draw.expovariate(1 / APPEND_UNITS))))
        with open(self.path(self.draw.choice(self.there)), "rb") as file:
            while file.read(MIB):
                pass
        at = self.draw.randrange(len(self.there))
        self.there[at], self.there[-1] = self.there[-1], self.there[at]
        gone = self.there.pop()
        os.unlink(self.path(gone))
        self.free.insert(self.draw.randrange(len(self.free) + 1), gone)
        os.stat(self.path(self.draw.choice(self.there)))

    def fill(self):
        """Makes the files that are there before."""
        while len(self.there) < BEFORE * self.files:
            self.create()
        self.written = 0

    def serve(self, seconds):
        """Serves at the rate, and returns the blocks written."""
        began = time.monotonic()
        while (passed := time.monotonic() - began) < seconds:
            if self.written > passed * self.rate:
                time.sleep((self.written - passed * self.rate) / self.rate)
            self.round()
        return self.written


def joined(bios, rows):
    """Joins the kernel's account with that of the server, and counts the blocks."""
    marks = collections.defaultdict(collections.deque)
    for flags, at, sectors, _ in bios:
        must(at * SECTOR % UNIT == 0 and sectors * SECTOR % UNIT == 0, f"a bio of {sectors} sectors at {at}")
        for lbn in range(at * SECTOR // UNIT, (at + sectors) * SECTOR // UNIT):
            marks[lbn].append(is_meta(flags))
    seen, found = set(), collections.Counter()
    for row in rows:
        if row["op"] == "mark":
            # What was before is known, and not counted.
            must(not found["unknown"], f"{found['unknown']} blocks are not in both accounts")
            found.clear()
        if row["op"] != "write":
            continue
        lbn = int(row["offset"]) // UNIT
        for at, name in enumerate(row["fingerprints"].split()):
            is_duplicate = name in seen
            seen.add(name)
            found["blocks"] += 1
            if name == "?" or not marks[lbn + at]:
                found["unknown"] += 1
                continue
            is_metadata = marks[lbn + at].popleft()
            found["metadata"] += is_metadata
            found["metadata_duplicates"] += is_metadata and is_duplicate
            found["data_duplicates"] += not is_metadata and is_duplicate
    found["unknown"] += sum(map(len, marks.values()))
    return found


def records(path):
    """Reads a trace, by its export."""
    text = f"{path}.csv"
    onefold.run("trace", "export", path, text, "--to", "csv", timeout=1200)
    # The names of files are bytes.
    with open(text, encoding="utf-8", errors="surrogateescape") as file:
        lines = (line for line in file if not line.startswith("#"))
        yield from csv.DictReader(lines)
    os.unlink(text)


def measure(path, kind, files, seconds, rate, seed):
    """Runs the load on one file system, until it is unmounted, and returns its counts."""
    where = os.path.join(path, kind)
    os.mkdir(where)
    trace = os.path.join(where, "recorded")
    size = 2 * (files * FILE_UNITS + seconds * rate) * UNIT + 1024 * MIB
    with Mounted(where, size, "--memory", "256M", mkfs=("true",), mount=None) as mounted:
        recorder, bios = onefold.Recorder(mounted.disk.device, trace, "--ring", "64M"), Trace(where, mounted.device)
        try:
            recorder.hurry()
            call(*KINDS[kind], mounted.device)
            call("mount", "-t", kind, mounted.device, mounted.files)
            try:
                server = Server(mounted.files, files, rate, seed)
                server.fill()
                call("sync", "-f", mounted.files)
                onefold.run("trace", "mark", mounted.disk.device, "run")
                load = server.serve(seconds)
            finally:
                call("umount", mounted.files)
            writes = bios.end()
            summary = recorder.end()
        finally:
            recorder.kill()
            bios.undo.close()
    must(summary["gaps"] == 0, f"{summary['gaps']} requests are missing in the trace of {kind}")
    found = joined(writes, records(trace))
    data = found["blocks"] - found["metadata"]
    must(data >= 0.5 * load, f"{kind} wrote {data} blocks of data, the load {load}")
    must(found["metadata"] > 0, f"{kind} marked nothing")
    unknown = f"{found['unknown']} of {found['blocks']} blocks are not in both accounts"
    must(found["unknown"] <= UNKNOWN_MAX * found["blocks"], f"{kind}: {unknown}")
    share = found["metadata"] / found["blocks"]
    is_paper = SHARES[0] <= share <= SHARES[1]
    must(kind != "ext4" or is_paper, f"of ext4's writes {100 * share:.1f} % are metadata, the paper's have 12 to 28 %: choose another rate")
    os.unlink(trace)
    return {"file_system": kind, "load": load, **found}


def leave(part):
    """Leaves measurements for the report, beside those that are there, and returns the file."""
    there = {}
    if os.path.exists(FILE):
        with open(FILE, encoding="utf-8") as file:
            there = json.load(file)
    os.makedirs(os.path.dirname(FILE), exist_ok=True)
    with open(FILE, "w", encoding="utf-8") as file:
        json.dump({**there, **part}, file, indent=1)
    return FILE


def run(_name, options):
    files, seconds, rate = number("TABLE_1_FILES", 2500), number("TABLE_1_SECONDS", 60), number("TABLE_1_RATE", RATE)
    made, without = [], []
    chosen = os.environ.get("ONEFOLD_BENCH_TABLE_1", ",".join(KINDS)).split(",")
    with folder(options) as path:
        for kind in chosen:
            if why := lacking(kind):
                without.append({"file_system": kind, "why": why})
                continue
            made.append(measure(path, kind, files, seconds, rate, options.seed))
            if not options.json:
                print(made[-1], flush=True)
    must(made, "this kernel has none of these file systems")
    left = {"kernel": platform.release(), "files": files, "seconds": seconds, "rate": rate, "table_1": made, "lacking": without}
    return {"value": len(made), **left, "left in": leave(left)}
