"""Tables I and II of MobileCT (Mao et al., II.B) for the shipped loads, which `./dev loads` recorded on a disk of this project's machine.

The value is the mean of Table II off its diagonal: what an application shares with another one. The tables are in the detail.
"""

import glob
import json
import os
import subprocess

from block import onefold

LOADS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "data", "loads")
# The number of applications that the paper has.
LEAST = 15


def percent(share):
    return round(100 * share, 1)


def run(_name, _options):
    traces = sorted(glob.glob(os.path.join(LOADS, "*.tsv.zst")))
    if len(traces) < LEAST:
        few = f"data/loads has {len(traces)} traces, and the paper {LEAST} applications"
        raise onefold.Failed(f"{few}: record the others by ./dev loads --ship")
    words = [os.environ["ONEFOLD_LAB"], "trace", "analyze", *traces]
    report = json.loads(subprocess.run([*words, "--json"], stdout=subprocess.PIPE, text=True, check=True).stdout)
    applications = report["applications"]
    redundancy = [one["redundancy"] for one in applications]
    cells = report["sharing"]["cells"]
    shares = [cell for row, one in enumerate(cells) for column, cell in enumerate(one) if row != column]
    return {
        "value": round(100 * report["sharing"]["mean"], 3),
        "shared, mean, of the paper": round(100 * report["published"]["sharing"], 3),
        "shared, largest": percent(max(shares)),
        "shared, cells of 5 % or more": sum(share >= 0.05 for share in shares),
        "shared, mean, without zeros": round(100 * report["sharing_without_zeros"]["mean"], 3),
        "redundancy, mean": percent(sum(redundancy) / len(redundancy)),
        "redundancy, mean, of the paper": percent(report["published"]["redundancy"]),
        "found by one index, without zeros": percent(report["found"]["by_one_index"]),
        "found by an index for each, without zeros": percent(report["found"]["by_one_each"]),
        "tables": "\n" + subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout,
    }
