"""Writes files, syncs them, and reports each one only then: a crash may not lose them.

`synced.py write DIRECTORY SEED` prints a line "NAME GENERATION" for each file that is durable: written beside, fsynced, renamed over the
old one, the directory fsynced, and the file system still takes changes. It ends when it is killed or an operation fails.
`verify(directory, lines)` checks that each file is of its last printed generation or a later one, and whole.
"""

import hashlib
import os
import random
import sys

FILES = 48
HEAD = 48


def content(name, generation):
    """Returns generation `generation` of file `name`: a head with both, and a body that follows from them."""
    draw = random.Random(f"{name} {generation}")
    size = draw.choice((100, 4096, 10_000, 65_536, 300_000))
    # Every third body is one of a few: a duplicate.
    theme = f"theme {draw.randrange(8)}" if generation % 3 == 0 else f"{name} {generation}"
    body = hashlib.shake_128(theme.encode()).digest(size)
    return f"{name} {generation} {size}".ljust(HEAD).encode() + body


def write(directory, seed):
    draw = random.Random(seed)
    generations = {}
    for name in os.listdir(directory):
        if not name.endswith(".new"):
            with open(os.path.join(directory, name), "rb") as file:
                generations[name] = int(file.read(HEAD).split()[1])
    parent = os.open(directory, os.O_RDONLY)
    while True:
        name = f"file{draw.randrange(FILES)}"
        generation = generations.get(name, 0) + 1
        beside = os.path.join(directory, name + ".new")
        with open(beside, "wb") as file:
            file.write(content(name, generation))
            file.flush()
            os.fsync(file.fileno())
        os.rename(beside, os.path.join(directory, name))
        os.fsync(parent)
        # ext4's fsync also succeeds if it comes just as the commit that it would wait for has failed: that commit is over (jbd2's
        # jbd2_complete_transaction). An aborted journal accepts no change, though, so this fails then.
        os.utime(parent)
        generations[name] = generation
        print(name, generation, flush=True)


def verify(directory, lines):
    """Returns the number of verified files, and a list of what is wrong."""
    promised = {}
    for line in lines:
        words = line.split()
        if len(words) == 2 and line.endswith("\n"):
            promised[words[0]] = int(words[1])
    wrong = []
    for name, generation in sorted(promised.items()):
        try:
            with open(os.path.join(directory, name), "rb") as file:
                held = file.read()
        except OSError as error:
            wrong.append(f"{name}: generation {generation} was synced: {error}")
            continue
        words = held[:HEAD].split()
        found = int(words[1]) if len(words) == 3 and words[0].decode(errors="replace") == name and words[1].isdigit() else None
        if found is None or held != content(name, found):
            wrong.append(f"{name}: generation {generation} was synced, and it holds something else ({held[:HEAD]!r})")
        elif found < generation:
            wrong.append(f"{name}: generation {generation} was synced, and it holds {found}")
    return len(promised), wrong


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] != "write":
        sys.exit("usage: synced.py write DIRECTORY SEED")
    write(sys.argv[2], int(sys.argv[3]))
