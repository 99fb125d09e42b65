"""Records programs on ext4 on a traced device; see tools/dev/workloads.sh."""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "kit"))
import onefold  # noqa: E402
from debian import sh  # noqa: E402
from programs import PROGRAMS, VERSIONS  # noqa: E402
from ship import SHIPPED, ship  # noqa: E402

# The largest difference in points of duplication between a recorded program and its shipped trace.
POINTS_MAX = 3
# The options of a recording that is shipped: names without a key, so that traces can be compared, and all the memory for what waits.
SHIPPED_AS = ("--unkeyed", "md5", "--ring", "64M")


def memory():
    """Returns the bytes for the server: content may wait for the recorder there, so that bursts of writes make no gaps. Only what is used
    is taken."""
    with open("/proc/meminfo", encoding="ascii") as file:
        available = next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable:"))
    return max(1 << 30, min(8 << 30, available // 2))


class Device:
    """A sparse file, served as a block device, and its recording."""

    def __init__(self, path, gib):
        self.path = path
        self.recorder = None
        with open(path, "wb") as file:
            file.truncate(gib << 30)
        self.device = onefold.run("attach", "--passthrough", "--fuse", "--memory", memory(), path).stdout.strip()

    def record(self, trace, *options):
        self.recorder = onefold.Recorder(self.path, trace, *options)
        self.recorder.hurry()

    def phase(self, name):
        onefold.run("trace", "mark", self.path, name)

    def end(self):
        """Ends the recording, and returns its summary."""
        return self.recorder.end()

    def remove(self):
        if self.recorder:
            self.recorder.kill()
        onefold.run("detach", self.path)
        os.unlink(self.path)


def timed(step, root, cache):
    """Runs a step, and returns its seconds."""
    began = time.monotonic()
    step(root, cache)
    return round(time.monotonic() - began, 2)


def phase_of(trace, name="run"):
    """Returns what `trace info` counts in a phase."""
    phases = onefold.report("trace", "info", trace)["phases"]
    return next(phase for phase in phases if phase["name"] == name)


def complete(summary):
    """Refuses a recording that lacks a request, or the content of a block."""
    if summary["gaps"] or summary["blocks_known"] < summary["blocks"]:
        raise onefold.Failed(f"requests or content are missing, record it again: {summary}")


def record(name, out, place, cache, is_shipped):
    """Records a program, and returns the result."""
    gib, setup, work, shipped, _ = PROGRAMS[name]
    if is_shipped and not shipped:
        raise onefold.Failed("it has no shipped trace")
    trace, recording = os.path.join(out, name), os.path.join(place, "recording")
    shutil.rmtree(trace, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(recording)
    root = os.path.join(place, "root")
    os.makedirs(root, exist_ok=True)
    device = Device(os.path.join(place, "disk"), gib)
    mounted = False
    try:
        device.record(recording, *(SHIPPED_AS if is_shipped else ()))
        # The first phase has its name without a mark.
        sh(f"mkfs.ext4 -q -E lazy_itable_init=1 {device.device}; mount {device.device} {root}")
        mounted = True
        device.phase("setup")
        seconds = {"setup_sec": timed(setup, root, cache)}
        sh(f"sync -f {root}; umount {root}")
        mounted = False
        # The program finds cold caches.
        sh(f"echo 3 >/proc/sys/vm/drop_caches; mount {device.device} {root}")
        mounted = True
        device.phase("run")
        seconds["run_sec"] = timed(work, root, cache)
        sh(f"sync -f {root}")
        device.phase("umount")
        sh(f"umount {root}")
        mounted = False
        summary = device.end()
        onefold.run("trace", "import", recording, trace, timeout=1200)
    finally:
        if mounted:
            subprocess.run(["umount", root], check=False)
        device.remove()
    if is_shipped:
        complete(summary)
        ship(name, shipped, trace, gib, summary, {**VERSIONS[name](), **seconds})
    ran = phase_of(trace)
    made = {
        "trace": name,
        **{key: summary[key] for key in ("records", "blocks", "gaps", "bytes")},
        "run_blocks_written": ran["blocks_written"],
        "run_flushes": ran["flushes"],
        "duplication_percent": round(100 * ran["duplication"]["live"], 1),
        "zero_percent": round(100 * ran["duplication"]["zero"], 1),
    }
    if shipped:
        other = phase_of(os.path.join(SHIPPED, f"{shipped}.tsv.zst"))
        percent = round(100 * other["duplication"]["live"], 1)
        made |= {
            "shipped": shipped,
            "shipped_blocks_written": other["blocks_written"],
            "shipped_flushes": other["flushes"],
            "shipped_duplication_percent": percent,
            "points_apart": round(abs(made["duplication_percent"] - percent), 1),
        }
    return made


def main():
    parser = argparse.ArgumentParser(prog="./dev workloads")
    parser.add_argument("what", choices=("list", "record"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--dir", default=os.environ.get("TMPDIR", "/var/tmp"))
    parser.add_argument("--out", default="target/workloads")
    parser.add_argument("--ship", action="store_true")
    options = parser.parse_args()
    if options.what == "list":
        for name, (_, _, _, shipped, what) in PROGRAMS.items():
            print(f"{name:14} {what}{f'; as {shipped}' if shipped else ''}")
        return 0
    if not os.path.isdir(options.dir):
        parser.error(f"--dir {options.dir}: there is no such folder")
    names = options.names or list(PROGRAMS)
    for name in names:
        if name not in PROGRAMS:
            parser.error(f"unknown program '{name}'; ./dev workloads list shows the names")
    out = os.path.abspath(options.out)
    os.makedirs(out, exist_ok=True)
    cache = os.path.join(out, ".cache")
    os.makedirs(cache, exist_ok=True)
    place = tempfile.mkdtemp(prefix="onefold-workloads.", dir=options.dir)
    os.environ["ONEFOLD_RUN_DIR"] = os.path.join(place, "run")
    kept = os.path.join(out, "summary.json")
    summary = {}
    if os.path.exists(kept):
        with open(kept, encoding="utf-8") as file:
            summary = json.load(file)
    failed = 0
    try:
        for name in names:
            try:
                made = record(name, out, place, cache, options.ship)
            except (onefold.Failed, subprocess.SubprocessError) as error:
                failed += 1
                print(f"{name}: FAILED: {error}", flush=True)
                continue
            summary[name] = made
            with open(kept, "w", encoding="utf-8") as file:
                json.dump(summary, file, indent=1)
            verdict = ""
            shipped = made.get("shipped_duplication_percent")
            if shipped is not None:
                # Missing content is not counted anywhere: then there is nothing to compare.
                judged = "close" if made["points_apart"] <= POINTS_MAX else "APART"
                verdict = f", shipped {shipped} %: {'NOT COMPARED' if made['gaps'] else judged}"
            print(
                f"{name}: {made['run_blocks_written']} blocks written, {made['run_flushes']} flushes,"
                f" {made['duplication_percent']} % duplicates{verdict}; {made['gaps']} requests missing",
                flush=True,
            )
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
