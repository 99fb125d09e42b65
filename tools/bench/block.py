"""Attaching a volume, or a bare store, as a block device over FUSE and loop, with a counter of its own below it.

The backing store is a loop device over a sparse file: what the kernel counted there (/sys/block/*/stat) is checked against the ledger.
"""

import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import debian  # noqa: E402
import onefold  # noqa: E402

SECTOR = 512
UNIT = 4096
MIB = 1 << 20


def call(*words, **options):
    """Runs a command and returns its output. Its error output is in the exception."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise onefold.Failed(f"{' '.join(map(str, words))} ended with {done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}")
    return done.stdout


class Disk:
    """A loop device over a new sparse file."""

    def __init__(self, path, size):
        self.path = path
        with open(path, "wb") as file:
            file.truncate(size)
        self.device = call("losetup", "--find", "--show", "--direct-io=on", "--sector-size=512", path).strip()

    def counts(self):
        """Returns the bytes written, the writes and the flushes that the kernel has completed."""
        with open(f"/sys/block/{os.path.basename(self.device)}/stat", encoding="ascii") as file:
            fields = [int(field) for field in file.read().split()]
        return {"bytes": fields[6] * SECTOR, "writes": fields[4], "flushes": fields[15]}

    def close(self):
        call("losetup", "--detach", self.device)
        os.unlink(self.path)


def since(now, then):
    return {key: now[key] - then[key] for key in now}


class Attached:
    """A store attached by this binary; `device` is its path."""

    def __init__(self, store, *options):
        self.store = store
        self.device = onefold.run("attach", store, "--fuse", *options).stdout.strip()
        supervisor, self.server = onefold.server_pids(store)
        self.pids = [pid for pid in (supervisor, self.server) if pid]

    def cpu_seconds(self):
        total = 0
        for pid in self.pids:
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                fields = file.read().rsplit(") ", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
        return total / os.sysconf("SC_CLK_TCK")

    def counts(self):
        """Returns what its own ledger has counted as written."""
        stats = onefold.report("stats", self.store)
        if stats["passthrough"]:
            device = {count["what"]: count for count in stats["device"]}
            return {
                "bytes": device["writes"]["bytes"] + device["write-zeroes"]["bytes"],
                "writes": device["writes"]["operations"],
                "flushes": device["flushes"]["operations"],
                "units": None,
            }
        writes = [count for count in stats["device"] if count["what"].startswith("write ")]
        return {
            "bytes": sum(count["bytes"] for count in writes),
            "writes": sum(count["operations"] for count in writes),
            "flushes": stats["ledger"]["device_flushes"],
            "units": stats["ledger"]["device_units"],
            "client_units": stats["ledger"]["client_units"],
            "client_flushes": stats["ledger"]["client_flushes"],
            "disks": {disk["disk"]: disk["written_bytes"] for disk in stats["disk"]["disks"]},
            "by_class": {count["what"][6:]: count["bytes"] for count in writes},
        }

    def slowed(self):
        return onefold.report("stats", self.store).get("slowed")

    def detach(self):
        onefold.run("detach", self.store)


def roomy(options):
    """Puts the store into a directory in memory if there is room for a few: then a model, and not this machine's disk, determines the
    times."""
    shm = "/dev/shm"
    if os.path.isdir(shm) and shutil.disk_usage(shm).free > 8 << 30:
        options.dir = shm
    return options
