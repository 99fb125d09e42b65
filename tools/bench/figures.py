"""Keeps docs/figures.tsv, the table of recorded figures; docs/testing.md says how its rows are read. See tools/dev/bench.sh.

usage: figures.py ready              ends with 2 where the work tree is in no state to record anything
       figures.py record COMMAND     records the figures that COMMAND printed as JSON, and passes them on
"""

import datetime
import json
import os
import platform
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
TABLE = os.path.join("docs", "figures.tsv")
# Flags of /proc/cpuinfo that the speed of fingerprints depends on, and what the table calls them.
FEATURES = {"avx2": "avx2", "avx512f": "avx512", "sha_ni": "sha"}


class Refused(Exception):
    """Nothing can be recorded; the message says what to do."""


def git(root, *words):
    done = subprocess.run(["git", "-c", "safe.directory=*", *words], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Refused(f"--record needs the commit that is measured, and git {words[0]} failed: {done.stderr.strip()}")
    return done.stdout


def is_code(path):
    """Whether a change of this file may change what is measured: pages may not, and the table itself is one of them."""
    return not path.startswith("docs/") and not path.endswith(".md")


def clean_commit(root):
    """The commit that is checked out. Refused where the code in the work tree is not that commit's."""
    status = git(root, "status", "--porcelain", "--no-renames", "--untracked-files=all")
    changed = [line[3:] for line in status.splitlines() if is_code(line[3:])]
    if changed:
        named = ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if len(changed) > 5 else "")
        raise Refused(f"--record: the work tree has code that no commit has: {named}; commit it or put it away, and measure again")
    return git(root, "rev-parse", "--short=12", "HEAD").strip()


def processor(cpuinfo="/proc/cpuinfo"):
    """The processor's name, and how many there are with which features."""
    facts = {}
    try:
        with open(cpuinfo, encoding="utf-8") as file:
            for line in file:
                key, _, value = line.partition(":")
                facts.setdefault(key.strip(), value.strip())
    except OSError:
        pass
    name = facts.get("model name") or platform.machine() or "unknown"
    features = [f"{os.cpu_count()} cores"]
    if "flags" in facts:
        flags = facts["flags"].split()
        features += [called if flag in flags else f"no {called}" for flag, called in FEATURES.items()]
    return name, ", ".join(features)


class Table:
    """The table of a work tree in which every figure is one of the commit."""

    def __init__(self, root=ROOT):
        self.root = root
        self.commit = clean_commit(root)

    def add(self, report, command):
        """Appends a row. `report` has a name and a value, and may have a unit and a target."""
        if clean_commit(self.root) != self.commit:
            raise Refused(f"--record: {self.commit} was measured, and another commit is checked out now; {report['name']} is not recorded")
        date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
        unit, target = (report.get(key) or "none" for key in ("unit", "target"))
        row = [date, self.commit, *processor(), report["name"], format(report["value"], ".12g"), unit, target, command]
        with open(os.path.join(self.root, TABLE), "a", encoding="utf-8") as file:
            file.write("\t".join(row) + "\n")


def reports(lines):
    """Yields each JSON text, of one line or of several, and its figures: itself, or the targets that it has."""
    text = ""
    for line in lines:
        text += line
        try:
            found = json.loads(text)
        except json.JSONDecodeError:
            continue
        yield text, found.get("targets", [found])
        text = ""
    if text.strip():
        raise Refused(f"--record: what was printed last is no figure: {text.strip()[:80]}")


def main(words):
    if words == ["ready"]:
        clean_commit(ROOT)
    elif len(words) == 2 and words[0] == "record":
        table = Table()
        for text, figures in reports(sys.stdin):
            for figure in figures:
                table.add(figure, words[1])
            sys.stdout.write(text)
    else:
        raise Refused(__doc__.strip())


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Refused as refused:
        print(f"dev: {refused}", file=sys.stderr)
        sys.exit(2)
