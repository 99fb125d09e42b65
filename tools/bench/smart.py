"""SmartDedup's live figures: fio on ext4 (Figure 3), mixes of reads and writes (Figure 5), and a load like DEDISbench's (Figure 9).

Each load runs on volumes and on the bare store, over FUSE and a loop device. The memory of a volume is the default; the paper's, where
3 MB for the index are counted and requests and caches are not; or 3.5 MB for everything. The bare store is a file on this machine's disk; a
slowed one has the pace of a model. There the dirty pages of the device are bounded, so that a buffered write waits for the device. fio's
hot spot is a stand-in for DEDISbench.

What was measured is left in target/smartdedup.json, which `./dev bench papers` shows; runs that were not made again stay there.
ONEFOLD_BENCH_SMART_MIB and ONEFOLD_BENCH_SLOWED_MIB (2048) give the data of a run, ONEFOLD_BENCH_SMART_DUPLICATES and
ONEFOLD_BENCH_SMART_STORES the cases of Figure 3, ONEFOLD_BENCH_DIRTY_KIB the bound of dirty pages. A run on the tablet's flash takes
half an hour without a volume.
"""

import contextlib
import json
import os
import subprocess
import sys
import time

from block import MIB, UNIT, Attached, Disk, call, onefold, roomy, since
from live import Place, peak_mib
from throttled import throttled
from workloads import Mounted, drop_caches

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FILE = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "smartdedup.json")
MODEL = os.environ.get("ONEFOLD_BENCH_MODEL", "tablet")
BARE_MIB = int(os.environ.get("ONEFOLD_BENCH_SMART_MIB", "2048"))
SLOWED_MIB = int(os.environ.get("ONEFOLD_BENCH_SLOWED_MIB", "2048"))
DUPLICATES = tuple(int(word) for word in os.environ.get("ONEFOLD_BENCH_SMART_DUPLICATES", "0,25,50,75").split(","))
STORES = os.environ.get("ONEFOLD_BENCH_SMART_STORES", f"bare,{MODEL}").split(",")
# With 256 pages more than one write in twenty waits for the device, so that the 95th percentile is one of them.
DIRTY_BYTES = int(os.environ.get("ONEFOLD_BENCH_DIRTY_KIB", "1024")) << 10
# The memory of the paper as it counts it: 3 MB of fingerprints, and 0.5 MB of skipped blocks, for which a volume has 1.5 MiB here.
PAPER = "index 3M"
# All in, with an index for a tenth of the fingerprints.
LITTLE = "memory 3500K"
# The least part of fio's duplicates that has to be found, so that a run is one about duplicates.
FOUND_MIN = 1 / 3
# The data in GiB, and the reads among the requests in per cent, of each mix.
MIXES = {1: (4, 50), 2: (6, 66)}
# The duplicates of the paper's two images, in per cent; a fifth of the blocks has four of five requests.
IMAGES = (46, 19)
HOT_SPOT = ("--random_distribution=zoned:80/20:20/80",)


def setups(mib):
    index = max(mib * MIB // UNIT // 10 * 8, 512)
    return {
        "passthrough": ("--passthrough",), "volume": (), PAPER: ("--index-memory", "3M"),
        LITTLE: ("--memory", "3500K", "--index-memory", str(index)),
    }


def fio(directory, mib, percent, seed, rw, *more, threads=3, preexec_fn=None):
    """Runs a job over files of `mib` in all, and returns its account, all threads together."""
    words = [
        "fio", "--name=job", f"--directory={directory}", f"--rw={rw}", "--bs=4k", f"--size={mib * MIB // threads // UNIT * UNIT}",
        f"--numjobs={threads}", "--thread", "--ioengine=psync", "--refill_buffers", "--buffer_compress_percentage=0",
        f"--dedupe_percentage={percent}", f"--randseed={seed}", "--group_reporting", "--percentile_list=50:95", "--output-format=json",
        *more,
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=directory, preexec_fn=preexec_fn)
    if done.returncode != 0:
        raise onefold.Failed(f"fio ended with {done.returncode}: {done.stderr[:500]}")
    return json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]


def percentile(job, way, which):
    return round(job[way]["clat_ns"]["percentile"][f"{which}.000000"] / 1000, 1)


class Run:
    """A new store of `mib` twice, attached with these options, with an ext4 file system."""

    def __init__(self, place, mib, options, slowed):
        self.place, self.mib, self.options, self.slowed = place, mib, options, slowed
        self.is_volume = "--passthrough" not in options

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.disk = Disk(self.place.file("store"), 2 * self.mib * MIB + 256 * MIB)
            stack.callback(self.disk.close)
            if self.is_volume:
                onefold.run("create", self.disk.device)
            # Formatting is not measured: it runs at full speed.
            attached = Attached(self.disk.device, *self.options)
            try:
                call("mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0", attached.device)
            finally:
                attached.detach()
            self.attach(stack)
            self.stack = stack.pop_all()
        return self

    def attach(self, stack):
        drop_caches()
        self.attached = Attached(self.disk.device, *self.options, *self.slowed)
        stack.callback(self.attached.detach)
        if self.slowed:
            stack.enter_context(throttled(self.attached.device, DIRTY_BYTES))
        self.mounted = Mounted(self.attached.device)
        stack.callback(self.mounted.close)
        self.mounted.mount()

    def __exit__(self, *_):
        self.stack.close()

    def remount(self):
        self.mounted.unmount()
        drop_caches()
        self.mounted.mount()

    def saved(self):
        """Returns the part of the blocks in use that took no block of its own; the file system's metadata count, too."""
        if not self.is_volume:
            return None
        return round(onefold.report("stats", self.disk.device)["saved"]["percent"] / 100, 4)


def device_reads(run):
    """Returns the commands by which the store was read so far, by class, and the hits of the volume's read cache."""
    stats = onefold.report("stats", run.disk.device)
    found = {count["what"]: count["operations"] for count in stats["device"] if count["what"].startswith("read")}
    return found | ({"hits": stats["dedup"]["read_cache_hits"]} if run.is_volume else {})


def read_all(run, mib, percent, seed, *more, threads):
    """Reads random blocks of what was written from a cold cache, each once."""
    run.remount()
    before, began = device_reads(run), time.monotonic()
    read = fio(run.mounted.path, mib, percent, seed, "randread", *more, threads=threads)
    seconds = time.monotonic() - began
    return round(mib / seconds, 2), read, since(device_reads(run), before)


def late_percent(run):
    """Returns by how much the commands of a slowed store took longer than its model says, because of this machine."""
    slowed = run.attached.slowed()
    return round(100 * (slowed["late_us_mean"] + slowed["overslept_us_mean"]) / slowed["model_us_mean"], 2) if slowed else None


def check_subject(run, mib, percent):
    """Fails where a volume has found hardly any of fio's duplicates: its figures would say nothing of deduplication."""
    found = onefold.report("stats", run.disk.device)["dedup"]["duplicates"] / (mib * MIB // UNIT)
    if found < FOUND_MIN * percent / 100:
        raise onefold.Failed(f"of {percent} % duplicates only {100 * found:.1f} % were found when they were written")
    return round(found, 4)


def write_and_read(place, name, options, store, percent, seed, *more, threads=3):
    """Writes random blocks, and reads them from a cold cache: in the order of the writes, as fio does by default, and in another one."""
    mib, slowed = (BARE_MIB, ()) if store == "bare" else (SLOWED_MIB, ("--device-model", store))
    with Run(place, mib, options, slowed) as run:
        before, began = run.disk.counts(), time.monotonic()
        written = fio(run.mounted.path, mib, percent, seed, "randwrite", "--end_fsync=1", *more, threads=threads)
        run.mounted.unmount()
        seconds = time.monotonic() - began
        kernel = since(run.disk.counts(), before)
        linked, saved = check_subject(run, mib, percent) if run.is_volume else None, run.saved()
        run.mounted.mount()
        speed, read, commands = read_all(run, mib, percent, seed, *more, threads=threads)
        other_speed, _, other_commands = read_all(run, mib, percent, seed + 1, *more, threads=threads)
        found = {
            "setup": name, "store": store, "mib": mib, "duplicates_percent": percent, "dirty_bytes": DIRTY_BYTES if slowed else None,
            "write_mib_per_second": round(mib / seconds, 2), "write_p50_us": percentile(written, "write", 50),
            "write_p95_us": percentile(written, "write", 95), "write_commands": kernel["writes"],
            "read_mib_per_second": speed, "read_p50_us": percentile(read, "read", 50), "read_p95_us": percentile(read, "read", 95),
            "read_commands": commands, "other_read_mib_per_second": other_speed, "other_read_commands": other_commands,
            "linked": linked, "saved": saved, "units": kernel["bytes"] // UNIT, "late_percent": late_percent(run),
        }
    print(found, file=sys.stderr, flush=True)
    return found


def processor_seconds():
    """Returns the seconds that the machine's processors have worked."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _idle, _wait, irq, softirq = map(int, file.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def mix(place, number, name, options, seed):
    gib, reads = MIXES[number]
    threads = 3
    mib = gib * 1024 * BARE_MIB // 2048
    with Run(place, BARE_MIB, options, ()) as run:
        # The files are there before.
        fio(run.mounted.path, BARE_MIB, 25, seed, "write", "--end_fsync=1", threads=threads)
        run.remount()
        began, used = time.monotonic(), processor_seconds()
        share = f"--io_size={mib * MIB // threads // UNIT * UNIT}"
        fio(run.mounted.path, BARE_MIB, 25, seed + 1, "randrw", f"--rwmixread={reads}", share, "--end_fsync=1", threads=threads)
        run.mounted.unmount()
        found = {
            "mix": number, "setup": name, "mib": mib, "seconds": round(time.monotonic() - began, 2),
            "cpu_seconds": round(processor_seconds() - used, 2), "peak_mib": round(peak_mib(run.attached.server), 1),
        }
    print(found, file=sys.stderr, flush=True)
    return found


def key_of(run):
    return tuple(run.get(key) for key in ("store", "duplicates_percent", "mix", "load", "setup"))


def leave(**parts):
    """Puts parts into the file that the report takes, in the place of the same runs made before. Units are given as a multiple of those
    of the bare store, too."""
    known = {}
    if os.path.exists(FILE):
        with open(FILE, encoding="utf-8") as file:
            known = json.load(file)
    for part, runs in parts.items():
        made = {key_of(run) for run in runs}
        known[part] = sorted([run for run in known.get(part, []) if key_of(run) not in made] + runs, key=lambda run: str(key_of(run)[:4]))
        for run in known[part]:
            base = next((other for other in known[part] if is_base(other, run)), None)
            if "units" in run and base:
                run["units_ratio"] = round(run["units"] / base["units"], 4)
    known["cores"] = os.cpu_count()
    os.makedirs(os.path.dirname(FILE), exist_ok=True)
    with open(FILE, "w", encoding="utf-8") as file:
        json.dump(known, file, indent=1)


def is_base(other, run):
    """Returns whether a run is that of the bare store for the same load."""
    return other["setup"] == "passthrough" and all(other.get(key) == run.get(key) for key in ("store", "duplicates_percent"))


def against(runs, setup, base, value):
    """Returns the ratio of a value of a volume to that of the bare store."""
    of = {run["setup"]: run for run in runs if all(run[key] == wanted for key, wanted in base.items())}
    return round(of[setup][value] / of["passthrough"][value], 3)


def measure_fio(options):
    found = []
    for store in STORES:
        where = options.dir if store == "bare" else roomy_dir(options)
        mib = BARE_MIB if store == "bare" else SLOWED_MIB
        with Place(type("Options", (), {"dir": where})) as place:
            for percent in DUPLICATES:
                for name, words in setups(mib).items():
                    found.append(write_and_read(place, name, words, store, percent, options.seed))
                    leave(fio=found)
    quarter = {"store": STORES[-1], "duplicates_percent": 25 if 25 in DUPLICATES else DUPLICATES[-1]}
    ratios = {
        f"{setup}, {what}, against passthrough": against(found, setup, quarter, f"{what}_mib_per_second")
        for setup in setups(SLOWED_MIB) if setup != "passthrough" for what in ("write", "read", "other_read")
    }
    wanted = {"wanted with 25 % duplicates": "writes 1.169, reads 1.382 (SmartDedup, Figure 3)"}
    return {"value": ratios[f"{PAPER}, write, against passthrough"], **wanted, **ratios, "runs": found}


def roomy_dir(options):
    class Copy:
        dir = options.dir

    return roomy(Copy).dir


def measure_mixes(options):
    with Place(options) as place:
        found = [mix(place, number, name, words, options.seed) for number in MIXES for name, words in setups(BARE_MIB).items()]
    leave(mixes=found)
    return {"value": max(against(found, "volume", {"mix": number}, "cpu_seconds") for number in MIXES), "runs": found}


def measure_dedisbench(options):
    found = []
    with Place(options) as place:
        for percent in IMAGES:
            for name, words in setups(BARE_MIB).items():
                found.append(write_and_read(place, name, words, "bare", percent, options.seed, *HOT_SPOT, threads=4))
    leave(dedisbench=found)
    return {"value": against(found, "volume", {"duplicates_percent": IMAGES[0]}, "write_mib_per_second"), "runs": found}


def run(name, options):
    runners = {"smartdedup-fio": measure_fio, "smartdedup-mixes": measure_mixes, "smartdedup-dedisbench": measure_dedisbench}
    return {**runners[name](options), "cores": os.cpu_count(), "MiB": BARE_MIB, "slowed MiB": SLOWED_MIB, "left in": FILE}
