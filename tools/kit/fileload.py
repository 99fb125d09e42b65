"""A load on a mounted file system: fio with fsyncs, and a writer that reports what it has synced (synced.py)."""

import os
import signal
import subprocess
import sys
import time

import synced

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


class FileLoad:
    def __init__(self, work, mount):
        self.work = work
        self.mount = mount
        self.lines = os.path.join(work, "synced.log")
        self.workers = []

    def begin(self, number, seed, fsync):
        job = os.path.join(self.work, "job.fio")
        with open(job, "w", encoding="utf-8") as file:
            file.write(FIO.format(directory=os.path.join(self.mount, "fio"), seed=seed, fsync=fsync))
        # fio forks, so its whole group is ended with it.
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": self.work, "start_new_session": True}
        lines = open(self.lines, "a", encoding="utf-8")
        writer = [sys.executable, synced.__file__, "write", os.path.join(self.mount, "synced"), str(number)]
        self.workers = [
            subprocess.Popen(["fio", job], **quiet),
            subprocess.Popen(writer, stdout=lines, stderr=subprocess.DEVNULL, start_new_session=True),
        ]
        lines.close()

    def end(self):
        for worker in self.workers:
            self.end_group(worker)
        self.workers = []

    @staticmethod
    def end_group(worker):
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

    def verify(self):
        """Returns the number of verified files, and a list of what is wrong."""
        with open(self.lines, encoding="utf-8") as file:
            return synced.verify(os.path.join(self.mount, "synced"), file.readlines())
