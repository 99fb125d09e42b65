"""Benchmarks of the built binary on this machine: fio and libnbd use its NBD servers, with a volume and passthrough in turn."""

import contextlib
import json
import multiprocessing
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import nbd

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import onefold  # noqa: E402

MIB = 1 << 20
GIB = 1 << 30
RUNS = 5
# The commit mode of these figures; log.py has those of the other mode.
ORDERED = ("--commit-mode", "ordered")
RUN_S = 6


class Place:
    """A directory for one benchmark, with servers that end with it."""

    def __init__(self, options):
        self.path = tempfile.mkdtemp(prefix="onefold-bench.", dir=options.dir)
        os.environ["ONEFOLD_RUN_DIR"] = os.path.join(self.path, "run")
        self.log = open(os.path.join(self.path, "server.log"), "w", encoding="utf-8")
        self.servers = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in self.servers:
            if server.process.poll() is None:
                server.kill()
        self.log.close()
        shutil.rmtree(self.path)

    def file(self, name):
        return os.path.join(self.path, name)

    def serve(self, store, *options):
        socket = self.file(f"socket{len(self.servers)}")
        server = onefold.NbdServer(store, socket, self.log, *options)
        self.servers.append(server)
        return server.ready()


@contextlib.contextmanager
def client(server):
    handle = nbd.NBD()
    handle.connect_uri(server.uri)
    yield handle
    handle.shutdown()


def processor_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def job(server, seed, **more):
    """Runs fio for RUN_S seconds, and returns its account of the job."""
    settings = {
        "name": "job", "ioengine": "nbd", "uri": server.uri, "iodepth": 32, "time_based": 1, "runtime": RUN_S,
        "randseed": seed, "buffer_compress_percentage": 0, "refill_buffers": 1, **more,
    }
    words = ["fio", "--output-format=json", *(f"--{key}={value}" for key, value in settings.items())]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise onefold.Failed(f"fio ended with {done.returncode}: {done.stderr[:500]}")
    return json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]


def fio(server, seed, **more):
    """Runs a job, and returns its throughput in bytes a second and its cost."""
    before = processor_seconds(server.process.pid)
    began = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = job(server, seed, **more)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    way = "read" if more["rw"] in ("read", "randread") else "write"
    cost = {
        "server_cpu_s": round(processor_seconds(server.process.pid) - before, 2),
        "fio_cpu_s": round(ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime, 2),
    }
    return result[way]["bw_bytes"], cost


def ratio(options, span, fill, create=ORDERED, **more):
    """Returns the throughput of a volume, created with these options, divided by that of passthrough: measured in turn, the median of
    RUNS."""
    with Place(options) as place:
        bare, store = place.file("bare"), place.file("volume")
        size = 2 * span
        # Both are preallocated and written before, so that neither pays for the growth of its file.
        zeroing = ["dd", "if=/dev/zero", f"of={bare}", "bs=1M", f"count={size // MIB}", "oflag=direct"]
        subprocess.run(zeroing, check=True, stderr=subprocess.DEVNULL)
        shutil.copyfile(bare, store)
        onefold.run("create", store, "--force", *create)
        servers = {"passthrough": place.serve(bare, "--passthrough"), "volume": place.serve(store)}
        found = {"passthrough": [], "volume": []}
        costs = {}
        if fill:
            for server in servers.values():
                content = {key: value for key, value in more.items() if key.startswith("buffer_")}
                fio(server, options.seed, rw="write", bs="1M", size=span, time_based=0, runtime=600, **content)
        for number in range(RUNS):
            for name, server in servers.items():
                speed, costs[name] = fio(server, options.seed * 100 + number, size=span, **more)
                found[name].append(speed / MIB)
                # What a weak run left to be committed must not count for the next one.
                with client(server) as handle:
                    handle.flush()
                time.sleep(0.5)
        for server in servers.values():
            server.detach()
    median = {name: statistics.median(speeds) for name, speeds in found.items()}
    return {
        "value": round(median["volume"] / median["passthrough"], 3),
        "MiB/s": {name: [round(speed, 1) for speed in speeds] for name, speeds in found.items()},
        "cpu of the last run": costs,
        "cores": os.cpu_count(),
    }


def peak_mib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    raise onefold.Failed("no VmHWM")


def random_writes(server, seed, total, span):
    """Unique 4 KiB writes at random places, 64 at a time."""
    with client(server) as handle:
        draw = random.Random(seed)
        flying = [0]
        failed = []

        def done(error):
            flying[0] -= 1
            if error:
                failed.append(error)
            return 1

        body = bytearray(draw.randbytes(4096))
        for number in range(total // 4096):
            while flying[0] >= 64:
                handle.poll(-1)
            body[:8] = number.to_bytes(8, "little")
            flying[0] += 1
            handle.aio_pwrite(nbd.Buffer.from_bytearray(body), draw.randrange(span // 4096) * 4096, completion=done)
        while flying[0]:
            handle.poll(-1)
        handle.flush()
        if failed:
            raise onefold.Failed(f"{len(failed)} writes failed")


def large(place, *options):
    """Makes a sparse volume of 64 GiB."""
    store = place.file("large")
    onefold.run("create", store, "--size", "64G", "--sparse", *ORDERED)
    return store, place.serve(store, "--memory", "16M", *options)


def memory_peak(options):
    with Place(options) as place:
        _, server = large(place)
        began = time.monotonic()
        random_writes(server, options.seed, 4 * GIB, 60 * GIB)
        seconds = time.monotonic() - began
        peak = peak_mib(server.process.pid)
        server.detach()
    return {"value": round(peak, 1), "written_GiB": 4, "seconds": round(seconds, 1)}


def reopen(options):
    with Place(options) as place:
        store, server = large(place)
        random_writes(server, options.seed, 1 * GIB, 60 * GIB)
        server.kill()
        subprocess.run(["sync", store], check=True)
        began = time.monotonic()
        server = place.serve(store, "--memory", "16M")
        with client(server) as handle:
            handle.pread(4096, 123 * MIB)
        value = (time.monotonic() - began) * 1000
        server.detach()
    return {"value": round(value, 1), "from": "the start of `onefold attach` to the answer of the first read"}


def discard(server, first, length):
    """Discards a range in requests of the server's maximum size, one after another."""
    with client(server) as handle:
        most = 1 << 30
        for at in range(first, first + length, most):
            handle.trim(min(most, first + length - at), at)
        handle.flush()


def discard_untouched(options):
    with Place(options) as place:
        _, server = large(place)
        with client(server) as handle:
            size = handle.get_size()
        began = time.monotonic()
        discard(server, 0, size)
        value = time.monotonic() - began
        server.detach()
    return {"value": round(value, 3), "GiB": round(size / GIB, 1)}


def discard_written(options):
    """Measures the seconds for 4 GiB that were written, and the longest read of another client meanwhile."""
    with Place(options) as place:
        _, server = large(place)
        with client(server) as handle:
            draw = random.Random(options.seed)
            for at in range(0, 4 * GIB, MIB):
                handle.pwrite(draw.randbytes(MIB), at)
            handle.pwrite(os.urandom(MIB), 8 * GIB)
            handle.flush()
        over = multiprocessing.Event()
        ready = multiprocessing.Event()
        answer = multiprocessing.Queue()

        def read():
            longest, reads = 0.0, 0
            with client(server) as handle:
                while not over.is_set():
                    began = time.monotonic()
                    handle.pread(4096, 8 * GIB + 4096 * (reads % 256))
                    longest = max(longest, time.monotonic() - began)
                    reads += 1
                    ready.set()
            answer.put((longest, reads))

        reader = multiprocessing.get_context("fork").Process(target=read)
        reader.start()
        ready.wait(20)
        began = time.monotonic()
        discard(server, 0, 4 * GIB)
        seconds = time.monotonic() - began
        over.set()
        longest, reads = answer.get(timeout=20)
        reader.join()
        server.detach()
    return {"seconds": round(seconds, 3), "longest_read_ms": round(longest * 1000, 1), "reads_meanwhile": reads}


def second_copy(options, create=ORDERED, synced=False):
    """Copies a tree twice in the layout of a file system: an ext4 image of the tree, block by block.

    `synced` adds a flush after each 256 KiB, so that every epoch is small.
    """
    with Place(options) as place:
        image = place.file("tree.ext4")
        subprocess.run(
            ["mkfs.ext4", "-q", "-F", "-d", "/usr/share", "-E", "lazy_itable_init=0", image, "1500M"],
            check=True, capture_output=True,
        )
        size = os.path.getsize(image)
        store = place.file("volume")
        onefold.run("create", store, "--size", "4G", "--sparse", *create)

        def copy(at, memory):
            server = place.serve(store, "--memory", memory)
            with client(server) as handle, open(image, "rb") as file:
                # The index is rebuilt in the background after an opening.
                onefold.wait_for(lambda: rebuilt(), 120, "the index")
                before = found()
                offset = at
                while data := file.read(256 * 1024):
                    if any(data):
                        handle.pwrite(data, offset)
                        if synced:
                            handle.flush()
                    offset += len(data)
                handle.flush()
                after = found()
            server.detach()
            return {"read before": before["read"], **{key: after[key] - before[key] for key in after}}

        def found():
            """Returns how the blocks so far were stored, and the units that were read for it, by class."""
            stats = onefold.report("stats", store)
            read = {count["what"]: count["bytes"] // 4096 for count in stats["device"] if count["what"].startswith("read ")}
            stored = {key: stats["dedup"][key] for key in ("duplicates", "new_blocks", "unchanged", "zeroes")}
            return {**stored, **read, "read": sum(read.values())}

        def rebuilt():
            notices = onefold.report("status", store)["attached"]["condition"]["notices"]
            return any("index is filled" in notice for notice in notices)

        first = copy(0, "64M")
        second = copy((size + MIB - 1) // MIB * MIB, "64M")
    stored = second["duplicates"] + second["new_blocks"]
    return {"value": round(100 * second["duplicates"] / stored, 2), "first": first, "second": second}


def run(name, options):
    if name == "ratio-unique":
        return ratio(options, GIB, False, rw="randwrite", bs="4k")
    if name == "ratio-duplicates":
        return ratio(options, GIB, False, rw="randwrite", bs="4k", dedupe_percentage=50)
    if name == "ratio-write":
        return ratio(options, GIB, False, rw="write", bs="128k")
    if name == "ratio-read":
        return ratio(options, GIB, True, rw="read", bs="128k")
    if name in ("discard-written", "discard-reads"):
        made = discard_written(options)
        return {"value": made["seconds"] if name == "discard-written" else made["longest_read_ms"], **made}
    return {"memory-peak": memory_peak, "reopen": reopen, "discard-untouched": discard_untouched, "second-copy": second_copy}[name](options)
