"""Runs real software on ext4 on a slowed store: on a volume and on the bare store in turn, with the same model below both.

Run time counts from the first command of the workload to the end of the unmount, on a file system that was unmounted and mounted again
after its setup. The backing store lies in memory if there is room for it, so that the model, and not this machine's disk, determines the
times; what the store adds all the same is printed.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import programs
from block import MIB, Attached, Disk, call, onefold, roomy, since
from live import Place

MODEL = os.environ.get("ONEFOLD_BENCH_MODEL", "tablet")
RUNS = int(os.environ.get("ONEFOLD_BENCH_RUNS", "1"))
LOGICAL = 3 << 30
SCHEMES = {
    "passthrough": ["--passthrough"],
    "weak": ["--commit-mode", "ordered", "--persistence", "weak"],
    "strong": ["--commit-mode", "ordered", "--persistence", "strong"],
    "log-weak": ["--commit-mode", "log", "--persistence", "weak"],
    "log-strong": ["--commit-mode", "log", "--persistence", "strong"],
}
# The schemes that each benchmark compares with passthrough, with the target ratio of the run time.
COMPARED = {
    "live-workloads": {"weak": None, "strong": None},
    "log-live": {"log-weak": 1.03, "log-strong": 1.10},
}


def drop_caches():
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("3")


class Mounted:
    """An ext4 file system on a device, mounted at a directory of its own."""

    def __init__(self, device):
        self.device = device
        self.path = tempfile.mkdtemp(prefix="onefold-mount.")
        self.is_mounted = False

    def mount(self):
        call("mount", "-t", "ext4", self.device, self.path)
        self.is_mounted = True

    def unmount(self):
        if self.is_mounted:
            # A program that ends a moment later than its starter still holds the mount.
            for _ in range(100):
                done = subprocess.run(["umount", self.path], capture_output=True, check=False)
                if done.returncode == 0:
                    break
                time.sleep(0.1)
            else:
                raise onefold.Failed(f"umount {self.path}: {done.stderr}")
            self.is_mounted = False

    def close(self):
        self.unmount()
        os.rmdir(self.path)


def once(place, program, scheme, number):
    """Makes one run of a program on one scheme."""
    disk = Disk(place.file(f"{program.name}.{scheme}.{number}"), LOGICAL + LOGICAL // 32 + 64 * MIB)
    try:
        if scheme != "passthrough":
            onefold.run("create", disk.device, "--logical", LOGICAL)
        # The setup is not measured: it runs at full speed.
        volume = Attached(disk.device, *SCHEMES[scheme])
        mounted = None
        try:
            call("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", volume.device)
            mounted = Mounted(volume.device)
            mounted.mount()
            program.setup(mounted.path)
        finally:
            if mounted:
                mounted.close()
            volume.detach()
        drop_caches()
        volume = Attached(disk.device, *SCHEMES[scheme], "--device-model", MODEL)
        mounted = Mounted(volume.device)
        try:
            mounted.mount()
            ledger, kernel, cpu = volume.counts(), disk.counts(), resource.getrusage(resource.RUSAGE_CHILDREN)
            server_cpu = volume.cpu_seconds()
            began = time.monotonic()
            program.run(mounted.path)
            mounted.unmount()
            seconds = time.monotonic() - began
            ended = resource.getrusage(resource.RUSAGE_CHILDREN)
            server_cpu = volume.cpu_seconds() - server_cpu
            after = volume.counts()
            slowed = volume.slowed()
        finally:
            mounted.close()
            volume.detach()
        kernel = since(disk.counts(), kernel)
        written = {key: after[key] - ledger[key] for key in after if isinstance(after[key], int)}
        return {
            "seconds": round(seconds, 2),
            "server_cpu_s": round(server_cpu, 2),
            "program_cpu_s": round(ended.ru_utime + ended.ru_stime - cpu.ru_utime - cpu.ru_stime, 2),
            "until the unmount": written,
            "until the detach, by the kernel": {**kernel, "units": -(-kernel["bytes"] // 4096)},
            "added by the store, us a command": round(slowed["late_us_mean"] + slowed["overslept_us_mean"], 1),
            "model, us a command": round(slowed["model_us_mean"], 1),
        }
    finally:
        disk.close()


def run(name, options):
    """Returns the run time on a volume divided by that on the bare store and by its target, if there is one; the worst of the programs that
    ran."""
    compared = COMPARED[name]
    schemes = ["passthrough", *compared]
    names = os.environ.get("ONEFOLD_BENCH_PROGRAMS")
    wanted = {key: programs.PROGRAMS[key] for key in names.split(",")} if names else programs.PROGRAMS
    made, worst = {}, 0.0
    with Place(roomy(options)) as place:
        for key, make in wanted.items():
            try:
                program = make(options.seed)
            except programs.Missing as reason:
                made[key] = f"SKIPPED: {reason}"
                print(f"SKIPPED {name}, {key}: {reason}", file=sys.stderr, flush=True)
                continue
            found = {scheme: [] for scheme in schemes}
            for number in range(RUNS):
                for scheme in schemes:
                    found[scheme].append(once(place, program, scheme, number))
                    print(f"{program.name}, {scheme}: {found[scheme][-1]}", file=sys.stderr, flush=True)
            median = {scheme: statistics.median(run["seconds"] for run in runs) for scheme, runs in found.items()}
            ratios = {scheme: round(median[scheme] / median["passthrough"], 3) for scheme in compared}
            worst = max(worst, *(ratio / (compared[scheme] or 1) for scheme, ratio in ratios.items()))
            made[program.name] = {"run time ratio": ratios, **found}
    return {"value": round(worst, 3), "model": MODEL, "runs": RUNS, "store in": options.dir, "cores": os.cpu_count(), **made}
