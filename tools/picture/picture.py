"""Measures what reaches the disk below a bare ext4, below one on a volume on the disk, and below one on a volume in a file, for real trees
and programs; see tools/dev/picture.sh."""

import argparse
import contextlib
import datetime
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
for place in ("kit", "bench", "workloads"):
    sys.path.insert(0, os.path.join(HERE, "..", place))
import savings  # noqa: E402
from bench import commit  # noqa: E402
from block import MIB, Attached, Disk, call, since  # noqa: E402
from debian import sh  # noqa: E402
from onefold import Failed, run  # noqa: E402
from programs import PROGRAMS, base_system, nothing  # noqa: E402

# The versions of this repository that are checked out side by side.
VERSIONS = 20


def three_systems(root, cache):
    """Unpacks the same minimal Debian three times."""
    for number in range(3):
        place = os.path.join(root, f"system{number}")
        os.mkdir(place)
        base_system(place, cache)


def versions(root, _cache):
    """Checks out versions of this repository, the newest and those before it at equal distances, each into a folder of its own."""
    git = ["git", "-c", "safe.directory=*", "-C", ROOT]
    commits = call(*git, "rev-list", "--first-parent", "HEAD").split()
    step = max(len(commits) // VERSIONS, 1)
    for version in commits[::step][:VERSIONS]:
        sh(f"mkdir {root}/{version}; git -c safe.directory='*' -C {ROOT} archive {version} | tar -x -C {root}/{version}")


def shipped(name):
    _, setup, work, _, _ = PROGRAMS[name]
    return setup, work


# Each load has a setup, which is not counted, its work, and the words in the picture.
LOADS = {
    "systems": (nothing, three_systems, "three Debian systems side by side"),
    "versions": (nothing, versions, f"{VERSIONS} versions of a source tree"),
    "vm-images": (*shipped("vm-images"), "images of virtual machines, and a backup"),
    "apt-install": (*shipped("apt-install"), "apt-get install of a browser"),
    "apt-update": (*shipped("apt-update"), "apt-get update"),
    "sqlite": (*shipped("sqlite-modes"), "SQLite, small synced transactions"),
    "random": (*shipped("fio-dup0"), "neither repeated nor compressible data"),
}
DISK_BYTES = 8 << 30
# Larger than what is preallocated.
FILE_SIZE = "7G"


def sync_and_unmount(root):
    sh(f"sync -f {root}; umount {root}")


FORMAT = ("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0")


class Bare:
    """A disk as it is."""

    def __init__(self, disk, _place):
        self.device = disk.device

    def attach(self):
        """Returns what is mounted, and what ends that."""
        return self.device, lambda: None

    def end(self):
        """Has nothing to end."""


class OnDisk:
    """A volume whose store is the disk."""

    def __init__(self, disk, _place):
        self.store = disk.device
        run("create", self.store)

    def attach(self):
        attached = Attached(self.store)
        return attached.device, attached.detach

    def end(self):
        """Has nothing to end."""


class InFile(OnDisk):
    """A volume whose store is a file on ext4 on the disk."""

    def __init__(self, disk, place):
        self.host = os.path.join(place, "host")
        os.makedirs(self.host, exist_ok=True)
        call(*FORMAT, disk.device)
        call("mount", disk.device, self.host)
        self.store = os.path.join(self.host, "store")
        run("create", "--size", FILE_SIZE, self.store)

    def attach(self):
        device, detach = super().attach()

        def end():
            detach()
            call("sync", "-f", self.host)

        return device, end

    def end(self):
        call("umount", self.host)


def measure(load, scheme, place, cache):
    """Returns the bytes that reach the disk while the load runs on this scheme."""
    setup, work, _ = LOADS[load]
    root = os.path.join(place, "root")
    os.makedirs(root, exist_ok=True)
    with contextlib.ExitStack() as stack:
        disk = Disk(os.path.join(place, "disk"), DISK_BYTES)
        stack.callback(disk.close)
        on = scheme(disk, place)
        stack.callback(on.end)
        written = None
        for steps in (setup, work):
            sh("echo 3 >/proc/sys/vm/drop_caches")
            if scheme is InFile:
                call("sync", "-f", on.host)
            before = disk.counts()
            device, detach = on.attach()
            try:
                if steps is setup:
                    call(*FORMAT, device)
                call("mount", device, root)
                try:
                    steps(root, cache)
                finally:
                    sync_and_unmount(root)
            finally:
                detach()
            written = since(disk.counts(), before)["bytes"]
        return written


def main():
    parser = argparse.ArgumentParser(prog="./dev picture")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(LOADS))
    parser.add_argument("--dir", default=os.environ.get("TMPDIR", "/var/tmp"))
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for name in options.names:
        if name not in LOADS:
            parser.error(f"unknown load '{name}'; there are {', '.join(LOADS)}")
    if not os.path.isdir(options.dir):
        parser.error(f"--dir {options.dir}: there is no such folder")
    if options.check:
        return 0
    found = {row.load: row for row in savings.read()}
    cache = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "picture")
    os.makedirs(cache, exist_ok=True)
    place = tempfile.mkdtemp(prefix="onefold-picture.", dir=options.dir)
    os.environ["ONEFOLD_RUN_DIR"] = os.path.join(place, "run")
    measured, today = commit(), datetime.date.today().isoformat()
    try:
        for name in options.names or LOADS:
            bare, volume, file = (measure(name, scheme, place, cache) for scheme in (Bare, OnDisk, InFile))
            row = savings.Row(name, today, measured, bare, volume, file, LOADS[name][2])
            ratios = f"{volume / MIB:.1f} on a volume, {row.ratio():.2f} of that, {file / MIB:.1f} in a file, {row.file_ratio():.2f}"
            print(f"{row.words}: {bare / MIB:.1f} MiB bare, {ratios}", flush=True)
            found[name] = row
            savings.write([found[load] for load in LOADS if load in found])
    except (Failed, subprocess.SubprocessError) as error:
        print(f"picture: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
