"""Recording and watching any disk: what it costs, whether the content is that of the disk, and whether the forecast comes true.

- content-cost: the kernel's own account of the recording program, for each block of 4 KiB that is handed over, direct and buffered.
- content-equal: a tree and fio's random buffered writes on ext4, XFS and Btrfs, on a disk and on a partition; then each block that was
  recorded last is compared with the disk.
- disk-record-latency: fio on a disk at half of its rate, with and without a recording in turn.
- watch-forecast: a watch over five loads on ext4, and then the same loads on a volume in each commit mode: units foretold, and written.
- watch-cpu, watch-memory: a hundred requests a second, and as many requests as that makes in a day.

Environment: ONEFOLD_BENCH_WATCH_SECONDS (600; of watch-forecast), ONEFOLD_BENCH_WATCH_REQUESTS (8640000; of watch-memory).
"""

import atexit
import csv
import hashlib
import json
import os
import signal
import statistics as averages
import subprocess
import sys
import time

import below
from block import MIB, UNIT, Attached, Disk, call, onefold, roomy
from hinted import must, number
from traced import BpfOf, statistics

GIB = 1 << 30
TREE = "/usr/lib/python3"
HOSTS = {
    "ext4": ("mkfs.ext4", "-q", "-F"),
    "xfs": ("mkfs.xfs", "-q", "-f"),
    "btrfs": ("mkfs.btrfs", "-q", "-f"),
}
LOADS = ("messages", "journal", "lines", "rows", "tree")
PAIRS = 7
LATENCY_SECONDS = 6
# The most of the content that may be missing from what a forecast is made of, in per cent.
UNSEEN_MOST = 1


class Running:
    """A command of this binary that runs until it is ended, and then prints a report."""

    def __init__(self, *words):
        self.process = subprocess.Popen(
            [onefold.BINARY, *map(str, words), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
        )
        # A bench that fails leaves no recording behind.
        atexit.register(self.process.kill)
        line = self.process.stderr.readline()
        must("watching" in line or "recording" in line, f"{words}: {line}")
        self.pid = self.process.pid

    def seconds(self):
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_bytes(self):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as file:
            (line,) = [line for line in file if line.startswith("VmHWM:")]
        return int(line.split()[1]) * 1024

    def end(self):
        self.process.send_signal(signal.SIGINT)
        said, errors = self.process.communicate(timeout=600)
        must(self.process.returncode == 0, f"ended with {self.process.returncode}: {errors}")
        return json.loads(said)


def fio(path, name, **more):
    """Runs a job on a file or a disk, and returns its account."""
    settings = {"name": name, "filename": path, "rw": "randwrite", "bs": "4k", "norandommap": 1, "refill_buffers": 1, **more}
    said = call("fio", "--output-format=json", *(f"--{key}={value}" for key, value in settings.items()))
    (job,) = json.loads(said[said.index("{") :])["jobs"]
    must(job["error"] == 0, f"fio {name} ended with {job['error']}")
    return job["write"]


class Host:
    """A file system on a new disk, or on a partition of it."""

    def __init__(self, path, kind, size=2 * GIB, in_partition=False):
        self.disk, self.at, self.device = Disk(path, size), f"{path}.mnt", None
        self.device = self.disk.device
        if in_partition:
            call("sfdisk", "-q", "--no-reread", self.disk.device, input="2048,\n")
            call("partx", "-u", self.disk.device)
            self.device += "p1"
        call(*HOSTS[kind], self.device)
        os.makedirs(self.at)
        call("mount", self.device, self.at)

    def unmount(self):
        call("umount", self.at)
        os.rmdir(self.at)

    def close(self):
        self.disk.close()


def content_cost(options):
    """Returns the most that a block costs, of buffered and direct writes."""
    host = Host(os.path.join(options.dir, "cost"), "ext4")
    trace = os.path.join(options.dir, "cost.trace")
    found = {}
    try:
        for name, job in (("direct", {"direct": 1, "bs": "4k"}), ("buffered", {"direct": 0, "bs": "64k", "end_fsync": 1, "rw": "write"})):
            call("rm", "-rf", trace)
            running = Running("trace", "record", "--disk", host.device, "--out", trace, "--ring", "64M", "--no-reads")
            with statistics():
                before = BpfOf(running.pid).runs
                fio(f"{host.at}/{name}", name, size=256 * MIB, **job)
                after = BpfOf(running.pid).runs
            summary = running.end()
            # The programs that see who makes pages dirty are another part of the cost; the sum is for each block.
            nanoseconds = sum(after[one][0] - before.get(one, (0, 0))[0] for one in after)
            handed = summary["blocks"] - summary["blocks_without_room"]
            must(handed > 30_000, f"{name}: only {handed} blocks were handed over: {summary}")
            found[name] = round(nanoseconds / handed / 1000, 3)
    finally:
        host.unmount()
        host.close()
    return {"value": max(found.values()), "us a block": found}


def recorded_blocks(trace):
    """Returns the fingerprint that each block was written with last, of file data, and whether it was known."""
    last = {}
    export = subprocess.Popen([onefold.LABORATORY, "trace", "export", trace, "-", "--to", "csv"], stdout=subprocess.PIPE, text=True)
    lines = iter(export.stdout)
    next(lines)
    csv.field_size_limit(1 << 30)
    for row in csv.DictReader(lines):
        if row["op"] in ("write", "discard", "write-zeroes"):
            first, blocks = int(row["offset"]) // UNIT, -(-int(row["length"]) // UNIT)
            names = row["fingerprints"].split(" ") if row["fingerprints"] else ["?"] * blocks
            for at, name in zip(range(first, first + blocks), names):
                last[at] = (name, row["stream"]) if row["op"] == "write" else None
    export.stdout.close()
    must(export.wait() == 0, "the export failed")
    return {at: seen[0] for at, seen in last.items() if seen and seen[1] == "D"}


def content_equal(options):
    """Returns the share of the blocks of buffered writes that the trace has as the disk has them, the least of all hosts."""
    shares, zero = {}, hashlib.md5(bytes(UNIT)).hexdigest()[:32]
    for kind, in_partition in [(kind, False) for kind in HOSTS] + [("ext4", True)]:
        host = Host(os.path.join(options.dir, f"equal-{kind}"), kind, in_partition=in_partition)
        trace = os.path.join(options.dir, "equal.trace")
        call("rm", "-rf", trace)
        try:
            running = Running("trace", "record", "--disk", host.device, "--out", trace, "--ring", "64M", "--unkeyed", "md5")
            call("cp", "-a", TREE, f"{host.at}/tree")
            call("sync", "-f", host.at)
            fio(f"{host.at}/random", "random", size=256 * MIB, io_size=64 * MIB, ioengine="psync", end_fsync=1, rate="40m")
            call("cp", "-a", f"{host.at}/tree", f"{host.at}/again")
            host.unmount()
            summary = running.end()
            wanted = recorded_blocks(trace)
            must(len(wanted) > 20_000, f"{kind}: only {len(wanted)} blocks of files: {summary}")
            same = 0
            with open(host.device, "rb") as device:
                for at, name in wanted.items():
                    device.seek(at * UNIT)
                    here = hashlib.md5(device.read(UNIT)).hexdigest()[:32]
                    same += (zero if name == "0" else name) == here
            name = f"{kind}{', a partition' if in_partition else ''}"
            shares[name] = {"%": round(100 * same / len(wanted), 4), "blocks": len(wanted), "missing": summary["gaps"],
                            "without room": summary["blocks_without_room"]}
        finally:
            host.close()
    return {"value": min(share["%"] for share in shares.values()), "hosts": shares}


def disk_record_latency(options):
    """Returns what a recording adds to the mean latency of a disk at half of its rate, in per cent: the median of the pairs."""
    disk = Disk(os.path.join(options.dir, "latency"), 2 * GIB)
    trace = os.path.join(options.dir, "latency.trace")
    job = {"direct": 1, "size": GIB, "runtime": LATENCY_SECONDS, "time_based": 1, "ioengine": "libaio", "iodepth": 1}
    try:
        fio(disk.device, "fill", direct=1, rw="write", bs="1m", size=GIB)
        highest = averages.median(fio(disk.device, "highest", **job)["iops"] for _ in range(3))
        pairs, missing = [], 0
        for turn in range(PAIRS):
            means = {}
            for recorded in (turn % 2 == 0, turn % 2 == 1):
                if recorded:
                    call("rm", "-rf", trace)
                    running = Running("trace", "record", "--disk", disk.device, "--out", trace, "--ring", "64M", "--no-reads")
                means[recorded] = fio(disk.device, "half", rate_iops=int(highest / 2), **job)["lat_ns"]["mean"] / 1000
                if recorded:
                    summary = running.end()
                    must(summary["records"] > 1000, f"nothing was recorded: {summary}")
                    missing += summary["gaps"] + summary["blocks_without_room"]
            pairs.append((means[False], means[True]))
    finally:
        disk.close()
    added = [round(100 * (after / before - 1), 1) for before, after in pairs]
    # What was not recorded has cost nothing.
    return {"value": averages.median(added) if missing == 0 else 100, "added in each pair, %": added,
            "mean us": [[round(us, 1) for us in pair] for pair in pairs], "writes/s at most": round(highest),
            "requests and blocks missing": missing, "cores": os.cpu_count()}


def load(name, at, turn):
    """Does a turn of a load in a directory of its own."""
    at = f"{at}/{name}{turn}"
    os.makedirs(at)
    if name in ("messages", "journal"):
        below.messages(at, "wal" if name == "messages" else "delete", 300)
    elif name == "lines":
        below.log_lines(at, 400)
    elif name == "rows":
        below.rows(at, 200)
    else:
        call("cp", "-a", f"{TREE}/dist-packages", f"{at}/tree")
        call("sync", "-f", at)


def five_loads(at, seconds):
    """Does the loads in turn, at an even pace, in so much time. Each place gets the same: as many turns."""
    turns = max(seconds // 30, 1)
    began = time.monotonic()
    for turn in range(turns):
        for name in LOADS:
            load(name, at, turn)
        left = began + (turn + 1) * seconds / turns - time.monotonic()
        if left > 0:
            time.sleep(left)
    call("sync", "-f", at)


def watch_forecast(options):
    """Returns by how many per cent the forecast of units is off what a volume has written, the most of both modes."""
    seconds = number("WATCH_SECONDS", 600)
    ext4 = ("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0")
    HOSTS["ext4"] = ext4
    host = Host(os.path.join(options.dir, "forecast"), "ext4", size=4 * GIB)
    try:
        running = Running("watch", host.device)
        five_loads(host.at, seconds)
        time.sleep(6)
        report = running.end()
    finally:
        host.unmount()
        host.close()
    must(report["missing"]["requests"] == 0, f"requests are missing: {report['missing']}")
    totals = report["totals"]
    all_units = totals["all"]["units"]
    unseen = round(100 * totals["unknown_blocks"] / all_units, 2)
    details = {"content not seen, %": unseen, "watched units": all_units}
    must(unseen <= UNSEEN_MOST, f"{unseen} % of the content was not seen, so there is nothing to foretell from: the machine is too busy")
    worst = 0.0
    for foretold in report["volumes"]:
        mode = foretold["commit_mode"]
        must(foretold["ended"] is None, f"the forecast ended: {foretold}")
        disk = Disk(os.path.join(options.dir, f"volume-{mode}"), 4 * GIB)
        at = f"{disk.path}.mnt"
        os.makedirs(at, exist_ok=True)
        try:
            onefold.run("create", "--commit-mode", mode, disk.device)
            volume = Attached(disk.device)
            call(*ext4, volume.device)
            call("mount", volume.device, at)
            # What mkfs and the mount have brought is written, and its pages, too.
            time.sleep(70)
            before = volume.counts()
            five_loads(at, seconds)
            time.sleep(70)
            after = volume.counts()
        finally:
            subprocess.run(["umount", at], check=False, capture_output=True)
            onefold.run("detach", disk.device, check=False)
            os.rmdir(at)
            disk.close()
        units = after["units"] - before["units"]
        client = after["client_units"] - before["client_units"]
        # The loads' own clocks and the times of write-back differ a little: the ratio is what is foretold.
        off = 100 * abs(foretold["units"] / foretold["client_blocks"] / (units / client) - 1)
        details[mode] = {"foretold": foretold["units"], "of": foretold["client_blocks"], "written": units, "of clients'": client,
                         "units off, %": round(100 * (foretold["units"] / units - 1), 2), "ratio off, %": round(off, 2)}
        worst = max(worst, abs(100 * (foretold["units"] / units - 1)))
    return {"value": round(worst, 2), **details}


def watch_cpu(options):
    """Returns the share of a processor that a watch takes at a hundred requests a second, in per cent."""
    host = Host(os.path.join(options.dir, "cpu"), "ext4")
    try:
        running = Running("watch", host.device, "--memory", "32M")
        began, cpu = time.monotonic(), running.seconds()
        fio(f"{host.at}/file", "paced", size=256 * MIB, io_size=GIB, runtime=60, time_based=1, rate_iops=100, direct=1,
            buffer_compress_percentage=50)
        share = 100 * (running.seconds() - cpu) / (time.monotonic() - began)
        report = running.end()
        must(report["totals"]["all"]["requests"] > 5000, f"too few requests: {report['totals']}")
    finally:
        host.unmount()
        host.close()
    return {"value": round(share, 3), "requests": report["totals"]["all"]["requests"]}


def watch_memory(options):
    """Returns the memory at most, in MiB, over the requests of a day."""
    requests = number("WATCH_REQUESTS", 8_640_000)
    host = Host(os.path.join(options.dir, "memory"), "ext4", size=4 * GIB)
    try:
        running = Running("watch", host.device, "--memory", "32M")
        fio(f"{host.at}/file", "day", size=2 * GIB, io_size=requests * UNIT, direct=1, ioengine="libaio", iodepth=16, norandommap=1)
        peak = running.peak_bytes()
        report = running.end()
    finally:
        host.unmount()
        host.close()
    seen = report["totals"]["all"]["requests"]
    must(seen + report["missing"]["requests"] >= requests, f"too few requests: {seen}")
    return {"value": round(peak / MIB, 1), "requests": seen, "missing": report["missing"], "volumes": report["volumes"]}


def run(name, options):
    sys.stderr.write(f"{name}\n")
    made = {
        "content-cost": content_cost,
        "content-equal": content_equal,
        "disk-record-latency": disk_record_latency,
        "watch-forecast": watch_forecast,
        "watch-cpu": watch_cpu,
        "watch-memory": watch_memory,
    }
    # A forecast is of a real disk: one in memory brings a copied tree faster than two processors can look at it beside.
    return made[name](options if name == "watch-forecast" else roomy(options))
