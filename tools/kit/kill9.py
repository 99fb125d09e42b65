"""Kills the server under ext4 and fio, round after round; see tools/dev/kill9.sh."""

import argparse
import contextlib
import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import backing
import onefold
from changes import Changes, create
from cutdisk import CutDisk
from fileload import FileLoad
from noise import InFile, Noise
from oracle import Violation
from scrubs import Scrubs
from turns import SUBJECTS, Turns, has_all, tell

# The size of the store: enough for everything that the loads keep, and for growth.
STORE_MIB = 512
VOLUME_MIB = 480
# From this number of rounds on, each kind of change has to have happened.
ROUNDS_OF_ALL = 12


class DataLoss(Exception):
    """Something that was synced is missing, or the file system or volume is damaged."""


class Kills:
    def __init__(self, options):
        self.options = options
        self.random = random.Random(options.seed)
        self.work = tempfile.mkdtemp(prefix="onefold-kill9.", dir=options.dir)
        self.mount = os.path.join(self.work, "mnt")
        os.mkdir(self.mount)
        os.environ["ONEFOLD_RUN_DIR"] = os.path.join(self.work, "run")
        store = os.path.join(self.work, "store")
        os.mkdir(store)
        self.disk = CutDisk(options.cutfs, store, STORE_MIB, options.seed)
        self.volume = self.disk.path
        self.device = None
        self.load = FileLoad(self.work, self.mount)
        self.turns = Turns(options.seed)
        self.changes = None
        self.scrubs = None
        self.counts = {"cuts": 0, "kills": 0, "servers replaced": 0, "failing stores": 0, "losses reported": 0, "files verified": 0}
        self.counts |= {"garbage": 0, "recounts": 0}
        self.counts |= dict.fromkeys((*SUBJECTS, "mended by scrubs", "scrubs continued", "cut off", "refused"), 0)
        self.noise = Noise(self.random, self.counts)
        if options.out_of_line:
            self.counts["linked out of line"] = 0

    def command(self, *words, allowed=(0,)):
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=300, check=False)
        if done.returncode not in allowed:
            raise DataLoss(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def mounted(self):
        return os.path.ismount(self.mount)

    def attach(self):
        self.device = onefold.run("attach", self.volume, "--fuse", *self.settings()).stdout.strip().splitlines()[-1]
        self.changes.opened()

    def settings(self):
        words = ["--memory", self.random.choice(("8M", "64M"))]
        words += ["--commit-mode", self.random.choice(onefold.MODES[self.options.commit_mode])]
        if words[-1] == "log":
            words += ["--compress", self.random.choice(("all", "all", "carriers", "off"))]
        if self.random.random() < 0.2:
            words += ["--persistence", "strong"]
        if self.options.out_of_line:
            words += ["--index-memory", self.random.choice(("512", "16K"))]
        return words

    def find_out_of_line(self):
        """Has all blocks looked at, while the load goes on; nobody waits for the end."""
        onefold.run("dedup", self.volume, "--all", "--no-wait")
        time.sleep(self.random.uniform(0, 1))

    def linked(self):
        """The number of blocks that this server has found duplicate out of line."""
        return onefold.report("stats", self.volume)["out_of_line"]["linked"]

    def begin(self):
        create(self.volume, VOLUME_MIB, self.work)
        self.changes = Changes(self.disk, self.random, self.counts)
        self.scrubs = Scrubs(self.volume, self.random, self.counts)
        self.attach()
        self.command("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0", self.device)
        self.command("mount", self.device, self.mount)
        os.mkdir(os.path.join(self.mount, "synced"))
        os.mkdir(os.path.join(self.mount, "fio"))
        self.command("sync", "-f", self.mount)
        with self.noise_file() as door:
            self.noise.write_all(door)
        self.reopen()

    def noise_file(self):
        return contextlib.closing(InFile(os.path.join(self.mount, "noise")))

    def kill_server(self, number):
        """Kills the server alone: another takes over, and no error occurs."""
        supervisor = onefold.supervisor_of(self.volume)
        onefold.wait_for(lambda: onefold.children_of(supervisor), 10, "a server to kill")
        for server in onefold.children_of(supervisor):
            os.kill(server, signal.SIGKILL)
        self.counts["kills"] += 1
        before = self.load.written()
        deadline = time.monotonic() + 30
        while self.load.alive() and self.load.written() == before and time.monotonic() < deadline:
            time.sleep(0.05)
        if not self.load.alive():
            raise DataLoss(f"round {number}: the load ended when only the server was killed")
        if self.load.written() == before:
            raise DataLoss(f"round {number}: nothing was synced in 30 s after the server was killed")
        self.counts["servers replaced"] += 1

    def kill_both(self):
        """Kills supervisor and server: the device dies with them, as in a crash of the machine."""
        self.counts["kills"] += onefold.kill_processes(onefold.supervisor_of(self.volume))
        self.release()

    def release(self):
        """Ends what is left above a volume that does not serve any more."""
        self.load.end()
        self.command("umount", self.mount, allowed=(0, 32))
        if self.mounted():
            self.command("umount", "-l", self.mount)
        onefold.forget_dead(self.volume)

    def fail_store(self):
        """Makes the store fail under the load, and kills the volume, with or without a power cut. Returns a description."""
        events = self.disk.fail()
        self.counts["failing stores"] += 1
        deadline = time.monotonic() + 30
        while self.load.alive() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.kill_both()
        if self.random.random() < 0.7:
            events += "; " + self.disk.cut()
            self.counts["cuts"] += 1
        self.disk.power()
        return events

    def expect_lost_report(self):
        """Checks that the first flush after the store's failure reports an error if anything acknowledged is lost, and that no later one
        does."""
        device = os.open(self.device, os.O_RDWR)
        try:
            os.fsync(device)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            self.counts["losses reported"] += 1
            os.fsync(device)
        finally:
            os.close(device)

    def fsck(self):
        """Checks that nothing is left to repair once the journal is replayed."""
        output = self.command("e2fsck", "-p", self.device, allowed=(0, 1))
        if "UNEXPECTED" in output:
            raise DataLoss(output)
        self.command("e2fsck", "-f", "-n", self.device)

    def verify(self):
        """Mounts, and reads what was synced, and the noise."""
        self.command("mount", self.device, self.mount)
        files, wrong = self.load.verify()
        if wrong:
            raise DataLoss("; ".join(wrong[:5]))
        self.counts["files verified"] += files
        with self.noise_file() as door:
            self.noise.verify(door)

    def recount(self, garbage):
        """Waits for the recount, which must return exactly what `check` had found."""

        def space():
            return onefold.report("stats", self.volume)["space"]

        onefold.wait_for(lambda: not space()["garbage_possible"], 120, "the recount")
        if space()["recounted_blocks"] != garbage:
            raise DataLoss(f"check found {garbage} links too many, the recount returned {space()['recounted_blocks']}")
        self.counts["recounts"] += 1

    def fill_device(self):
        """Has the file system take what the device has grown by."""
        self.command("e2fsck", "-f", "-p", self.device, allowed=(0, 1))
        self.command("resize2fs", self.device)

    def begin_changes(self):
        """What happens under the load before it ends. Returns the growth that has begun."""
        if self.turns.due("scrub under load"):
            self.scrubs.begin()
        with self.noise_file() as door:
            self.noise.write_anew(door, False)
        growth = self.changes.begin_growth() if self.turns.due("grow attached") else None
        if growth and self.turns.alternates("a kill during growth"):
            time.sleep(self.random.uniform(0, 0.2))
            return growth
        self.end_growth(growth, True)
        return None

    def end_growth(self, growth, is_expected):
        """Ends a growth under load. If its server alone was killed, before it had noted the order, it may fail, but not twice."""
        if growth and self.changes.end_growth(growth, is_expected) and is_expected:
            again = self.changes.begin_growth()
            failure = again and self.changes.end_growth(again, True)
            if failure:
                raise DataLoss(f"a growth under load failed: {failure}")

    def spoil_superblock(self):
        """Changes a bit of one of the two copies of the superblock at the front: the others are whole."""
        backing.rot(self.volume, self.random.choice((0, backing.PAGE)), self.random.randrange(512 * 8))

    def reopen(self):
        """Detaches, so that the noise of this volume has its fingerprints on the medium, and attaches again."""
        self.command("umount", self.mount)
        onefold.run("detach", self.volume)
        self.changes.settle()
        self.noise.note_named(self.volume)
        if self.turns.due("repair"):
            self.scrubs.repair(self.noise)
        self.attach()
        self.command("mount", self.device, self.mount)

    def round(self, number):
        self.load.begin(number, self.options.seed * 7919 + number, self.random.choice((1, 4, 16)))
        time.sleep(self.random.uniform(0.5, self.options.seconds))
        if self.options.out_of_line:
            self.find_out_of_line()
            self.counts["linked out of line"] += self.linked()
        how = ("the store's failure", "a kill of the server", "a kill of both")[number % 3]
        growth = self.begin_changes()
        if number % 3 == 1:
            self.kill_server(number)
            self.end_growth(growth, True)
            self.load.end()
            self.command("umount", self.mount)
            self.fsck()
            self.verify()
            self.end_round()
            return how
        if number % 3 == 0:
            how += f" ({self.fail_store()})"
        else:
            self.kill_both()
        self.end_growth(growth, False)
        how += self.changes.offline(self.noise, self.turns)
        garbage = self.scrubs.check(self.noise)
        self.counts["garbage"] += garbage
        self.attach()
        self.expect_lost_report()
        self.fsck()
        if self.turns.due("fill the device"):
            self.fill_device()
        self.verify()
        self.recount(garbage)
        self.end_round()
        return f"{how}, {garbage} links too many"

    def end_round(self):
        if self.turns.due("scrub"):
            self.scrubs.scrub(self.noise, self.spoil_superblock)
        if self.noise.waits_for_names() and self.turns.due("reopen"):
            self.reopen()

    def end_volume(self):
        """Writes anew what has rotted, and finds nothing damaged after the end."""
        with self.noise_file() as door:
            self.noise.write_anew(door, True, chance=1)
        self.command("umount", self.mount)
        onefold.run("detach", self.volume)
        self.changes.settle()
        if self.scrubs.check(self.noise):
            raise DataLoss("garbage is left after the last recount and a detach")

    def run(self):
        began = time.monotonic()
        number = 0
        try:
            self.begin()
            for number in range(1, self.options.rounds + 1):
                ended_by = self.round(number)
                if number % self.options.tell == 0 or number == self.options.rounds:
                    print(f"round {number}: ended by {ended_by} ({(time.monotonic() - began) / number:.1f} s a round)", flush=True)
            self.end_volume()
        except (DataLoss, Violation, onefold.Failed, OSError, subprocess.TimeoutExpired) as error:
            print(f"round {number} of seed {self.options.seed}: {type(error).__name__}: {error}", flush=True)
            print(f"kept for inspection: {self.work}", flush=True)
            self.disk.keep(os.path.join(self.work, "disk"))
            return 1
        print(f"{self.options.rounds} rounds, seed {self.options.seed}: {tell(self.counts)}; nothing synced was lost")
        return 0 if has_all(self.counts, self.options.rounds, ROUNDS_OF_ALL) else 1

    def end(self, code):
        self.load.end()
        if self.mounted():
            subprocess.run(["umount", self.mount], check=False, stderr=subprocess.DEVNULL)
        if self.mounted():
            subprocess.run(["umount", "-l", self.mount], check=False)
        onefold.run("detach", self.volume, check=False)
        self.disk.end()
        if code == 0:
            shutil.rmtree(self.work)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--tell", type=int, default=5)
    parser.add_argument("--commit-mode", choices=onefold.MODES, default="any")
    parser.add_argument("--out-of-line", action="store_true")
    parser.add_argument("--dir", default=None)
    parser.add_argument("--cutfs", required=True)
    kills = Kills(parser.parse_args())
    code = 1
    try:
        code = kills.run()
    finally:
        kills.end(code)
    return code


if __name__ == "__main__":
    sys.exit(main())
