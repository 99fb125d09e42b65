"""A file system on a volume that has rules of `onefold hint`, over FUSE and loop, or on the bare store: what the benches of hints share.

1. Below every store lies a disk of its own, whose bytes and flushes the kernel counts.
2. Rules are in force, and the observer sees the disk, before the first byte is counted.
3. What was mounted, attached or looped is given back, whatever has failed.
"""

import contextlib
import itertools
import os
import shutil
import time

from block import UNIT, Attached, Disk, call, onefold, roomy, since

EXT4 = ("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0")
BEGIN_SECONDS = 60
# Long enough for ext4's journal (5 s).
SETTLE_SECONDS = 6


def must(holds, what):
    """Raises where a bench has not had its subject."""
    if not holds:
        raise onefold.Failed(f"the bench measured nothing: {what}")


def number(name, default):
    """Returns the number that ONEFOLD_BENCH_... gives, or the default."""
    return int(os.environ.get(f"ONEFOLD_BENCH_{name}", default))


@contextlib.contextmanager
def folder(options):
    """Gives a folder for one bench, with the directories of its servers in it."""
    path = os.path.join(roomy(options).dir, f"onefold-hints.{os.getpid()}")
    os.mkdir(path, mode=0o755)
    os.environ.update({f"ONEFOLD_{of}_DIR": os.path.join(path, of.lower()) for of in ("RUN", "STATE", "CONFIG")})
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


class Mounted:
    """A file system on a volume, or with `passthrough` on the store itself by way of the same server, or with `bare` without one."""

    def __init__(self, path, size, *options, kind="volume", rules=(), mkfs=EXT4, mount=()):
        self.kind, self.mkfs, self.how, self.undo = kind, mkfs, mount, contextlib.ExitStack()
        self.files, self.attached = os.path.join(path, "files"), None
        os.makedirs(self.files, exist_ok=True)
        try:
            self.disk = Disk(os.path.join(path, "disk"), size)
            self.undo.callback(self.disk.close)
            self.device = self.disk.device
            if kind != "bare":
                self.attach(kind, options, rules)
            call(*mkfs, self.device)
            self.mount()
        except BaseException:
            self.undo.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.undo.close()

    def attach(self, kind, options, rules):
        if kind == "passthrough":
            options = ("--passthrough", *options)
        else:
            onefold.run("create", self.disk.device, "--force")
            for rule in rules:
                onefold.run("hint", *rule[:1], self.disk.device, *rule[1:])
        self.options = options
        self.undo.callback(lambda: self.attached and onefold.run("detach", self.disk.device, check=False))
        self.reattach()
        if kind == "volume":
            wait_observed(self)

    def reattach(self):
        self.attached = Attached(self.disk.device, *self.options)
        self.device = self.attached.device

    def blocks(self):
        """Returns the blocks of the device."""
        return int(call("blockdev", "--getsize64", self.device)) // UNIT

    def mount(self):
        """Mounts the file system; with `mount=None` there is none."""
        if self.how is None:
            return
        call("mount", *self.how, self.device, self.files)
        self.undo.callback(lambda: os.path.ismount(self.files) and call("umount", self.files))

    def unmount(self):
        call("umount", self.files)

    def detach(self):
        self.attached.detach()
        self.attached = None

    def stats(self):
        return onefold.report("stats", self.disk.device)

    def hints(self):
        return self.stats()["hints"]

    def settle(self):
        call("sync", "-f", self.files)
        time.sleep(SETTLE_SECONDS)
        call("sync", "-f", self.files)

    def counts(self):
        """Returns the units and flushes that the kernel has counted at the disk below."""
        counts = self.disk.counts()
        return {"units": counts["bytes"] / UNIT, "flushes": counts["flushes"]}

    def since(self, before):
        return since(self.counts(), before)


def wait_observed(mounted):
    """Writes to the device until the observer sees it: it begins in the background. A volume without rules has none."""

    place = itertools.count()

    def seen():
        # Each time another block: one that had a write just before the observer began stays ambiguous as long as it is written.
        to = f"of={mounted.device}", f"seek={next(place) % mounted.blocks()}"
        call("dd", "if=/dev/urandom", *to, "bs=4096", "count=1", "oflag=direct", "conv=notrunc", "status=none")
        observer = mounted.hints()["observer"]
        return observer is not None and observer["joined_blocks"] > 0

    hints = mounted.hints()
    if hints and (hints["rules"] or hints["spared_blocks"] is not None):
        try:
            onefold.wait_for(seen, BEGIN_SECONDS, "the observer to see writes")
        except onefold.Failed as failed:
            raise onefold.Failed(f"{failed} of {mounted.device}: {mounted.hints()}") from failed
