"""Measures the SQL of `./dev sql` on many traces: a folder of 2.75 million records for each application, made by `onefold-lab synth`, and
a tenth of a million records besides that all of them have.

ONEFOLD_BENCH_FLEET_RECORDS (100000000) gives the number of records, and ONEFOLD_BENCH_FLEET_MEMORY (4G) the memory of the engine. A
thousand million records take about 20 GB of disk for the traces, and three times as much for the tables meanwhile:

    ONEFOLD_BENCH_FLEET_RECORDS=1000000000 ./dev bench analyze-fleet --dir DIRECTORY
"""

import json
import os
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor

RECORDS = int(os.environ.get("ONEFOLD_BENCH_FLEET_RECORDS", "100000000"))
MEMORY = os.environ.get("ONEFOLD_BENCH_FLEET_MEMORY", "4G")
# Requests of an application, and its records: a flush follows each eight of the writes, which are four fifths.
REQUESTS = 2_500_000
RECORDS_EACH = REQUESTS + REQUESTS * 4 // 5 // 8
COMMON_REQUESTS = 100_000
COMMON = ("--duplication-ever", "30%", "--reads", "20%")


def synth(folder, requests, seed, *options):
    words = [os.environ["ONEFOLD_LAB"], "synth", "--out", folder, "--requests", str(requests), "--seed", str(seed), *COMMON, *options]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def fleet(place, seed):
    """Makes the folders."""
    common = os.path.join(place, "common")
    synth(common, COMMON_REQUESTS, seed * 100_000, "--working-set", "1G")

    def application(number):
        folder = os.path.join(place, f"application-{number:04}")
        synth(folder, REQUESTS, seed * 100_000 + number + 1, "--working-set", "8G", "--zero", "3%", "--flush-every", "8")
        os.link(os.path.join(common, "000000.parquet"), os.path.join(folder, "000900.parquet"))
        return folder

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(application, range(max(1, RECORDS // (RECORDS_EACH + COMMON_REQUESTS)))))


def run(_name, options):
    with tempfile.TemporaryDirectory(prefix="onefold-bench.", dir=options.dir) as place:
        folders = fleet(place, options.seed)
        traces = sum(os.path.getsize(os.path.join(folder, file)) for folder in folders for file in os.listdir(folder))
        words = ["bash", "tools/dev/sql.sh", *folders, "--memory", MEMORY, "--dir", place, "--json"]
        done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    made = json.loads(done.stdout)
    records = len(folders) * (RECORDS_EACH + COMMON_REQUESTS)
    return {
        "value": round(records / made["seconds"]),
        "records": records,
        "applications": len(folders),
        "seconds": made["seconds"],
        "seconds_of": made["seconds_of"],
        "peak_mib": made["peak_bytes"] >> 20,
        "traces_mib": traces >> 20,
        "shared_mean": made["sharing_without_zeros"]["mean"],
    }
