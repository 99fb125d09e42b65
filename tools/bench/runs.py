"""Replays traces with each length of run that a duplicate has to be part of, and compares extents and duplicates (SmartDedup, Figure 12).

`onefold-lab replay` does the work; all figures of one run of ./dev bench come from the same replays. Extents are compared with those of
the same replay in which no run is long enough, so that the same allocator places every block. Duplicates are those that are found in
line, without zeros; content that an LBN has already is one, too. `traces.py` has the traces.
"""

import concurrent.futures
import functools
import json
import os
import subprocess

from traces import recorded_and_phones

PHONE_SCALE = "0.001"
SCHEMES = ("ordered-anticipate", "packed")
LENGTHS = (1, 2, 3, 4)
LONGEST = LENGTHS[-1]
# No write has that many blocks.
NOTHING_LINKED = 1 << 20
# A share of few duplicates says nothing.
DUPLICATES_MIN = 100


def replay(trace, scheme, min_run):
    words = ["replay", trace, "--scheme", scheme, "--min-run", str(min_run), "--no-out-of-line", "--json"]
    done = subprocess.run([os.environ["ONEFOLD_LAB"], *words], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def duplicates(report):
    whole = report["whole"]
    return round((whole["duplication"]["found"] - whole["duplication"]["zero"]) * whole["client_units"])


def compare(case):
    """Returns the case's name, and for each length its extents, as a multiple, and the lost duplicates in per cent."""
    name, trace, scheme = case
    reports = {length: replay(trace, scheme, length) for length in (*LENGTHS, NOTHING_LINKED)}
    found = {length: duplicates(report) for length, report in reports.items()}
    if found[1] < DUPLICATES_MIN:
        return None
    whole = reports[NOTHING_LINKED]["extents"]
    extents = {length: round(reports[length]["extents"] / whole, 4) for length in LENGTHS}
    lost = {length: round(100 * (1 - found[length] / found[1]), 4) for length in LENGTHS}
    return {"case": f"{name}, {scheme}", "extents": extents, "lost": lost, "duplicates": found[1], "extents without": whole}


@functools.cache
def results():
    with recorded_and_phones(PHONE_SCALE) as traces, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        cases = [(*trace, scheme) for trace in traces.items() for scheme in SCHEMES]
        return [case for case in pool.map(compare, cases) if case]


FIGURES = {"filter-extents": "extents", "filter-duplicates": "lost"}


def run(name, _options):
    key, cases = FIGURES[name], results()
    worst = max(cases, key=lambda case: case[key][LONGEST])
    means = {length: round(sum(case[key][length] for case in cases) / len(cases), 4) for length in LENGTHS}
    return {"value": worst[key][LONGEST], "at": worst["case"], "means": means, "cases": cases}
