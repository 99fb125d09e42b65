"""Breaks one rule at a time in a scratch copy, and asks whether the crash explorer notices; see tools/dev/mutants.sh.

A mutant is a file of tools/mutants/: a head of `key: value` lines (rule, what; `option` may add an option of the explorer), then edits. An
edit is a line `--- FILE`, the exact text that stands there once, a line `+++`, and the text that takes its place. A mutant whose text is not
there any more is an error: the code has moved on, and the mutant has to follow.
"""

import argparse
import glob
import os
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


class Stale(Exception):
    """The text that a mutant changes is not in the tree."""


def parse(path):
    """(head, edits) of a mutant."""
    head, edits = {}, []
    part = None
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("--- "):
                edits.append({"file": line[4:].strip(), "old": "", "new": ""})
                part = "old"
            elif line.rstrip("\n") == "+++":
                part = "new"
            elif part:
                edits[-1][part] += line
            elif ":" in line:
                key, value = line.split(":", 1)
                head[key.strip()] = value.strip()
    return head, edits


def apply(tree, edits):
    """Makes the edits; returns what has to be written back."""
    before = {}
    for edit in edits:
        path = os.path.join(tree, edit["file"])
        with open(path, encoding="utf-8") as file:
            text = file.read()
        before.setdefault(path, text)
        if text.count(edit["old"]) != 1:
            raise Stale(f"{edit['file']} has the text {text.count(edit['old'])} times, not once:\n{edit['old']}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(edit["old"], edit["new"]))
    return before


def copy_tree(scratch):
    """The tracked files as they are in the work tree."""
    names = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-z"], stdout=subprocess.PIPE, check=True).stdout
    for name in filter(None, names.decode().split("\0")):
        if not os.path.isfile(name):
            continue
        place = os.path.join(scratch, name)
        os.makedirs(os.path.dirname(place) or ".", exist_ok=True)
        with open(name, "rb") as file:
            data = file.read()
        # What did not change keeps its time, so that little is compiled again.
        if os.path.exists(place):
            with open(place, "rb") as file:
                if file.read() == data:
                    continue
        with open(place, "wb") as file:
            file.write(data)


def build(scratch, target):
    words = ["cargo", "build", "--release", "--locked", "--quiet", "-p", "onefold-sim"]
    environment = {**os.environ, "CARGO_TARGET_DIR": target, "RUSTFLAGS": "-Awarnings"}
    done = subprocess.run(words, cwd=scratch, env=environment, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stderr


def judge(program, seed, minutes, option):
    """(caught, what was said, seconds)."""
    began = time.monotonic()
    words = [program, "crash", "--seed", str(seed), "--minutes", str(minutes), *option.split()]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=minutes * 60 + 120, check=False)
    except subprocess.TimeoutExpired:
        return True, "it did not end", time.monotonic() - began
    said = [line for line in done.stdout.splitlines() if "VIOLATION" in line or "panic" in line]
    said += [line for line in done.stderr.splitlines() if line.strip()][:1]
    return done.returncode != 0, (said or [f"exit code {done.returncode}"])[0], time.monotonic() - began


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--target", default="target/mutants")
    options = parser.parse_args()
    paths = sorted(glob.glob(os.path.join(HERE, "..", "mutants", "*.mutant")))
    mutants = {os.path.basename(path)[: -len(".mutant")]: parse(path) for path in paths}
    if options.list:
        for name, (head, _) in mutants.items():
            print(f"{name:32} {head['rule']:4} {head['what']}")
        return 0
    for name in options.names:
        if name not in mutants:
            sys.exit(f"mutants: there is no '{name}'; ./dev mutants --list has them")
    target = os.path.abspath(options.target)
    scratch = os.path.join(target, "tree")
    copy_tree(scratch)
    program = os.path.join(target, "build", "release", "onefold-sim")
    bad = 0
    for name, (head, edits) in mutants.items():
        if options.names and name not in options.names:
            continue
        try:
            before = apply(scratch, edits)
        except Stale as stale:
            print(f"{name} ({head['rule']}): STALE: {stale}", flush=True)
            bad += 1
            copy_tree(scratch)
            continue
        try:
            error = build(scratch, os.path.join(target, "build"))
            if error:
                print(f"{name} ({head['rule']}): DOES NOT BUILD:\n{error[-1500:]}", flush=True)
                bad += 1
                continue
            caught, said, seconds = judge(program, options.seed, options.minutes, head.get("option", ""))
        finally:
            for path, text in before.items():
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
        verdict = f"caught in {seconds:.0f} s" if caught else f"SURVIVED {seconds:.0f} s"
        bad += not caught
        print(f"{name} ({head['rule']}): {verdict}: {said[:160] if caught else head['what']}", flush=True)
    print(f"{len(options.names) or len(mutants)} mutants, {bad} of them not caught", flush=True)
    if bad == 0 and not options.names:
        shutil.rmtree(scratch)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
