"""Records loads on ext4 on a loop device; see tools/dev/loads.sh."""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import onefold  # noqa: E402
from debian import sh  # noqa: E402

SHIPPED = os.path.join(HERE, "..", "..", "data", "loads")
# The size of the file below the loop device. It is sparse.
DISK_BYTES = 4 << 30
# The least part of the whole blocks that has to have content.
KNOWN_LEAST = 0.999
# Memory for requests and content that wait for the recorder: the largest there is.
RING = "64M"
AGAIN = "record it again when the machine is less busy"


class Broken(Exception):
    """A recording lacks something."""


def loads():
    """Returns the names of the loads, and the first sentence of each."""
    found = {}
    for script in sorted(os.listdir(HERE)):
        if script.endswith(".sh") and script != "load.sh":
            with open(os.path.join(HERE, script), encoding="ascii") as file:
                found[script.removesuffix(".sh")] = file.readlines()[1].removeprefix("# ").strip()
    return found


def run_load(name, *words):
    """Runs the script of a load; its output is in the exception if it fails."""
    done = subprocess.run(
        ["bash", os.path.join(HERE, f"{name}.sh"), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise onefold.Failed(f"{name}.sh {' '.join(words)} ended with {done.returncode}:\n{done.stdout[-3000:]}")


class Disk:
    """ext4 on a loop device over a sparse file, mounted, until it is removed."""

    def __init__(self, place):
        self.file, self.root = os.path.join(place, "disk"), os.path.join(place, "root")
        self.device = None
        self.is_mounted = False

    def make(self):
        with open(self.file, "wb") as file:
            file.truncate(DISK_BYTES)
        os.makedirs(self.root)
        self.device = sh_says(f"losetup --find --show {self.file}")
        sh(f"mkfs.ext4 -q {self.device}; mount {self.device} {self.root}; sync -f {self.root}")
        self.is_mounted = True

    def unmount(self):
        # The recorder opens the file system for a moment when it looks for the path of a file.
        sh(f"sync -f {self.root}; for n in $(seq 50); do umount {self.root} && exit; sleep 0.1; done; exit 1")
        self.is_mounted = False

    def remove(self):
        if self.is_mounted:
            # Nobody has it open any more but what the load has left behind, which must not keep the disk.
            subprocess.run(["umount", "--lazy", self.root], check=False)
        if self.device:
            subprocess.run(["losetup", "--detach", self.device], check=False)


def sh_says(command):
    return subprocess.run(["bash", "-euc", command], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def check(summary):
    """Refuses a recording with less than all requests, or too little content."""
    if summary["gaps"]:
        raise Broken(f"{summary['gaps']} requests are missing; {AGAIN}")
    whole = summary["blocks"] - summary["blocks_partial"]
    if summary["blocks_known"] < KNOWN_LEAST * whole:
        raise Broken(f"content is known of {summary['blocks_known']} of {whole} whole blocks; {AGAIN}")


def record(name, out, cache):
    """Records a load, and returns the summary of the recording and the seconds that the load took."""
    run_load(name, "--prepare", cache)
    place = tempfile.mkdtemp(prefix="onefold-loads.", dir=cache)
    trace, recording = os.path.join(out, name), os.path.join(place, "recording")
    shutil.rmtree(trace, ignore_errors=True)
    disk, recorder = Disk(place), None
    try:
        disk.make()
        recorder = onefold.Recorder(None, recording, "--disk", disk.device, "--unkeyed", "md5", "--ring", RING)
        recorder.hurry()
        began = time.monotonic()
        work = os.path.join(disk.root, name)
        os.makedirs(work)
        run_load(name, work, cache)
        disk.unmount()
        seconds = time.monotonic() - began
        summary = recorder.end()
        check(summary)
        onefold.run("trace", "import", recording, trace, timeout=1200)
        return summary, seconds
    finally:
        if recorder:
            recorder.kill()
        disk.remove()
        shutil.rmtree(place, ignore_errors=True)


def packages(name):
    """Returns the version of each package that a load names."""
    with open(os.path.join(HERE, f"{name}.sh"), encoding="ascii") as file:
        line = next(line for line in file if line.startswith("# packages: "))
    names = line.removeprefix("# packages: ").split()
    return {package: sh_says(f"dpkg-query --show --showformat '${{Version}}' {package}") for package in names}


def ship(name, out, summary, seconds):
    """Writes a trace as text to data/loads, with what the recorder counted, and how it was made."""
    text = os.path.join(SHIPPED, f"{name}.tsv")
    onefold.run("trace", "export", os.path.join(out, name), text, "--to", "recorded", "--force")
    sh(f"zstd -19 --long=27 --quiet --force --rm {text}")
    keys = ("records", "blocks", "gaps", "blocks_known", "blocks_partial", "own_requests")
    made = {
        "name": name,
        "recorded": time.strftime("%Y-%m-%d"),
        "command": f"./dev loads {name} --ship",
        "kernel": os.uname().release,
        "file_system": "ext4, defaults",
        "packages": packages(name),
        "load_seconds": round(seconds, 1),
        **{key: summary[key] for key in keys},
    }
    with open(os.path.join(SHIPPED, f"{name}.json"), "w", encoding="ascii") as file:
        json.dump(made, file, indent=1)
        file.write("\n")


def ended(_signal, _frame):
    sys.exit(1)


def main():
    # So that the disk is removed.
    signal.signal(signal.SIGTERM, ended)
    parser = argparse.ArgumentParser(prog="./dev loads")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--ship", action="store_true")
    parser.add_argument("--out", default="target/loads")
    parser.add_argument("--dir", default=os.environ.get("TMPDIR", "/var/tmp"))
    options = parser.parse_args()
    known = loads()
    if options.list:
        for name, what in known.items():
            print(f"{name:10} {what}")
        return 0
    for name in options.names:
        if name not in known:
            parser.error(f"unknown load '{name}'; ./dev loads --list shows the names")
    if not os.path.isdir(options.dir):
        parser.error(f"--dir {options.dir}: there is no such folder")
    out, cache = os.path.abspath(options.out), os.path.join(options.dir, "onefold-loads")
    os.makedirs(out, exist_ok=True)
    os.makedirs(cache, exist_ok=True)
    failed = 0
    for name in options.names or known:
        try:
            summary, seconds = record(name, out, cache)
            if options.ship:
                ship(name, out, summary, seconds)
        except (Broken, onefold.Failed, subprocess.SubprocessError) as error:
            failed += 1
            print(f"{name}: FAILED: {error}", flush=True)
            continue
        print(f"{name}: {summary['records']} requests, {summary['blocks']} blocks written, in {seconds:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
