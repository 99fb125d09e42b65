"""The traces that are replayed: the recorded ones, and smartphone-like ones, whose duplicates are drawn one by one.

ONEFOLD_BENCH_PHONES chooses rows of SmartDedup's Table 1 (1,2,3,4,5,6), and ONEFOLD_BENCH_PHONE_SCALE the part of each that is made.
"""

import contextlib
import glob
import os
import subprocess
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PHONES = os.environ.get("ONEFOLD_BENCH_PHONES", "1,2,3,4,5,6").split(",")


@contextlib.contextmanager
def recorded_and_phones(scale):
    """Makes phones of this scale, unless another one is chosen, and yields the path of each trace by its name."""
    scale = os.environ.get("ONEFOLD_BENCH_PHONE_SCALE", scale)
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as place:
        recorded = sorted(glob.glob(os.path.join(ROOT, "data", "traces", "*.tsv.zst")))
        traces = {os.path.basename(path).split(".")[0]: path for path in recorded}
        for row in filter(None, PHONES):
            name = f"phone-{row}"
            traces[name] = os.path.join(place, name)
            words = ["synth", "--out", traces[name], "--phone", row, "--scale", scale]
            subprocess.run([os.environ["ONEFOLD_LAB"], *words], stdout=subprocess.DEVNULL, check=True)
        yield traces
