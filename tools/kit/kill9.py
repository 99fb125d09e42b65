"""Kills the server under ext4 and fio, round after round; see tools/dev/kill9.sh."""

import argparse
import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import onefold
import synced
from cutdisk import CutDisk

FIO = """
[global]
directory={directory}
size=48m
bs=4k
ioengine=psync
thread=1
direct=1
verify=crc32c
verify_fatal=1
do_verify=0
time_based=0
randseed={seed}
[load]
rw=randwrite
fsync={fsync}
dedupe_percentage=40
number_ios=1000000000
time_based=1
runtime=600
"""


# The size of the store: enough for everything that the loads keep.
STORE_MIB = 512


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
        self.lines = os.path.join(self.work, "synced.log")
        self.device = None
        self.workers = []
        self.counts = {"kills": 0, "servers replaced": 0, "failing stores": 0, "losses reported": 0, "files verified": 0}
        self.counts |= {"garbage": 0, "recounts": 0}
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
        onefold.run("create", self.volume, "--force")
        self.attach()
        self.command("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0", self.device)
        self.command("mount", self.device, self.mount)
        os.mkdir(os.path.join(self.mount, "synced"))
        os.mkdir(os.path.join(self.mount, "fio"))
        self.command("sync", "-f", self.mount)

    def load(self, number):
        """Starts fio with fsyncs, and a writer that reports what it has synced."""
        job = os.path.join(self.work, "job.fio")
        with open(job, "w", encoding="utf-8") as file:
            fsync = self.random.choice((1, 4, 16))
            file.write(FIO.format(directory=os.path.join(self.mount, "fio"), seed=self.options.seed * 7919 + number, fsync=fsync))
        # fio forks, so its whole group is ended with it.
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": self.work, "start_new_session": True}
        lines = open(self.lines, "a", encoding="utf-8")
        writer = [sys.executable, synced.__file__, "write", os.path.join(self.mount, "synced"), str(number)]
        self.workers = [
            subprocess.Popen(["fio", job], **quiet),
            subprocess.Popen(writer, stdout=lines, stderr=subprocess.DEVNULL, start_new_session=True),
        ]
        lines.close()

    def stop_load(self):
        for worker in self.workers:
            self.end_group(worker)
        self.workers = []

    def end_group(self, worker):
        """Ends a worker and its child processes, and waits until none of them is left."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                os.killpg(worker.pid, signal.SIGKILL)
            except ProcessLookupError:
                break
            worker.poll()
            time.sleep(0.02)
        worker.wait(timeout=10)

    def alive(self):
        return all(worker.poll() is None for worker in self.workers)

    def written(self):
        return os.path.getsize(self.lines)

    def kill_server(self, number):
        """Kills the server alone: another takes over, and no error occurs."""
        _, server = onefold.server_pids(self.volume)
        os.kill(server, signal.SIGKILL)
        self.counts["kills"] += 1
        before = self.written()
        deadline = time.monotonic() + 30
        while self.alive() and self.written() == before and time.monotonic() < deadline:
            time.sleep(0.05)
        if not self.alive():
            raise DataLoss(f"round {number}: the load ended when only the server was killed")
        if self.written() == before:
            raise DataLoss(f"round {number}: nothing was synced in 30 s after the server was killed")
        self.counts["servers replaced"] += 1

    def kill_both(self):
        """Kills supervisor and server: the device dies with them, as in a crash of the machine."""
        self.kill_processes()
        self.release()

    def kill_processes(self):
        processes = [pid for pid in onefold.server_pids(self.volume) if pid]
        # They are stopped first: otherwise the one that lives a moment longer replaces the other. The server dies first: a stopped one
        # continues when its supervisor dies.
        for pid in processes:
            os.kill(pid, signal.SIGSTOP)
        for pid in reversed(processes):
            os.kill(pid, signal.SIGKILL)
        self.counts["kills"] += len(processes)

    def release(self):
        """Ends what is left above a volume that does not serve any more."""
        self.stop_load()
        self.command("umount", self.mount, allowed=(0, 32))
        if self.mounted():
            self.command("umount", "-l", self.mount)
        onefold.run("detach", self.volume, check=False)
        onefold.wait_for(lambda: not self.in_use(), 60, "the dead server's device to go")

    def fail_store(self):
        """Makes the store fail under the load, and kills the volume, with or without a power cut. Returns a description."""
        events = self.disk.fail()
        self.counts["failing stores"] += 1
        deadline = time.monotonic() + 30
        while all(worker.poll() is None for worker in self.workers) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.kill_both()
        if self.random.random() < 0.7:
            events += "; " + self.disk.cut()
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

    def in_use(self):
        attached = onefold.report("status", self.volume).get("attached")
        return attached is not None

    def fsck(self):
        """Checks that nothing is left to repair once the journal is replayed."""
        output = self.command("e2fsck", "-p", self.device, allowed=(0, 1))
        if "UNEXPECTED" in output:
            raise DataLoss(output)
        self.command("e2fsck", "-f", "-n", self.device)

    def check(self):
        found = onefold.findings(self.volume)
        others = [f for f in found["findings"] if f["severity"] == "damage"]
        if others or not found["sound"]:
            raise DataLoss(f"check found what no crash explains: {others[:5]}")
        return sum(f["excess"] or 0 for f in found["findings"])

    def verify(self):
        self.command("mount", self.device, self.mount)
        with open(self.lines, encoding="utf-8") as file:
            files, wrong = synced.verify(os.path.join(self.mount, "synced"), file.readlines())
        if wrong:
            raise DataLoss("; ".join(wrong[:5]))
        self.counts["files verified"] += files

    def recount(self, garbage):
        """Waits for the recount, which must return exactly what `check` had found."""

        def space():
            return onefold.report("stats", self.volume)["space"]

        onefold.wait_for(lambda: not space()["garbage_possible"], 120, "the recount")
        if space()["recounted_blocks"] != garbage:
            raise DataLoss(f"check found {garbage} links too many, the recount returned {space()['recounted_blocks']}")
        self.counts["recounts"] += 1

    def round(self, number):
        self.load(number)
        time.sleep(self.random.uniform(0.5, self.options.seconds))
        if self.options.out_of_line:
            self.find_out_of_line()
            self.counts["linked out of line"] += self.linked()
        how = ("the store's failure", "a kill of the server", "a kill of both")[number % 3]
        if number % 3 == 1:
            self.kill_server(number)
            self.stop_load()
            self.command("umount", self.mount)
            self.fsck()
            self.verify()
            return how
        store_fails = number % 3 == 0
        if store_fails:
            how += f" ({self.fail_store()})"
        else:
            self.kill_both()
        garbage = self.check()
        self.counts["garbage"] += garbage
        self.attach()
        if store_fails:
            self.expect_lost_report()
        self.fsck()
        self.verify()
        self.recount(garbage)
        return f"{how}, {garbage} links too many"

    def run(self):
        began = time.monotonic()
        number = 0
        try:
            self.begin()
            for number in range(1, self.options.rounds + 1):
                ended_by = self.round(number)
                if number % self.options.tell == 0 or number == self.options.rounds:
                    print(f"round {number}: ended by {ended_by} ({(time.monotonic() - began) / number:.1f} s a round)", flush=True)
            self.command("umount", self.mount)
            onefold.run("detach", self.volume)
            if self.check():
                raise DataLoss("garbage is left after the last recount and a detach")
        except (DataLoss, onefold.Failed, OSError, subprocess.TimeoutExpired) as error:
            print(f"round {number} of seed {self.options.seed}: {type(error).__name__}: {error}", flush=True)
            print(f"kept for inspection: {self.work}", flush=True)
            return 1
        summary = ", ".join(f"{count} {what}" for what, count in self.counts.items())
        print(f"{self.options.rounds} rounds, seed {self.options.seed}: {summary}; nothing synced was lost")
        return 0

    def end(self, code):
        self.stop_load()
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
