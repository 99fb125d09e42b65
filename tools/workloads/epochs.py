#!/usr/bin/env python3
"""Records what a program syncs: the blocks of 4 KiB that each fsync or fdatasync of a file has to make durable, with their content.

usage: epochs.py OUT.epochs PATTERN PROGRAM [ARGUMENT]...

PROGRAM runs under strace; files whose path matches PATTERN, a regular expression, are recorded. Each file is taken to be empty before. \
For each
sync OUT has {blocks: u32, then for each block its number in the file: u64, content: 4096 bytes}, little-endian; syncs with nothing to write
are left out. `onefold-sim codecs OUT.epochs` reads it.
"""

import re
import struct
import subprocess
import sys

BLOCK = 4096
CALLS = "write,pwrite64,fsync,fdatasync"
CALL = re.compile(r'^(?:\[pid +\d+\] |\d+ +)?(\w+)\(\d+<([^>]*)>(?:, "((?:\\x[0-9a-f]{2})*)"(?:\.\.\.)?, (\d+)(?:, (\d+))?)?\) += (-?\d+)')


class File:
    """The bytes written to one file, and those of them that no sync has covered."""

    def __init__(self):
        self.blocks, self.dirty, self.position = {}, set(), 0

    def write(self, at, data):
        for number in range(at // BLOCK, (at + len(data) - 1) // BLOCK + 1):
            block = self.blocks.setdefault(number, bytearray(BLOCK))
            first, last = max(at, number * BLOCK), min(at + len(data), (number + 1) * BLOCK)
            block[first - number * BLOCK : last - number * BLOCK] = data[first - at : last - at]
            self.dirty.add(number)

    def sync(self):
        epoch = [(number, bytes(self.blocks[number])) for number in sorted(self.dirty)]
        self.dirty.clear()
        return epoch


def whole_calls(lines):
    """Joins calls that strace splits when another thread interrupts them."""
    begun = {}
    for line in lines:
        who = line.split(" ", 1)[0]
        if line.rstrip().endswith("<unfinished ...>"):
            begun[who] = line.rstrip().removesuffix("<unfinished ...>").rstrip()
        elif " resumed>" in line:
            yield begun.pop(who, "") + line.split(" resumed>", 1)[1]
        else:
            yield line


def text(shown):
    return bytes.fromhex(shown.replace("\\x", ""))


def epochs(lines, pattern):
    files = {}
    for line in whole_calls(lines):
        call = CALL.match(line)
        path = text(call[2]).decode(errors="replace") if call else ""
        if not call or not re.search(pattern, path) or int(call[6]) < 0:
            continue
        file = files.setdefault(path, File())
        if call[3] is None:
            if epoch := file.sync():
                yield epoch
            continue
        data = text(call[3])[: int(call[6])]
        if len(data) < int(call[6]):
            sys.exit(f"epochs: a write of {call[6]} bytes was short")
        at = file.position if call[5] is None else int(call[5])
        file.position = at + len(data) if call[5] is None else file.position
        file.write(at, data)


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    out, pattern, *program = sys.argv[1:]
    trace = ["strace", "-f", "-q", "-y", "-xx", "-s", str(1 << 26), "-e", f"trace={CALLS}", "-e", "signal=none", "-o", "|cat >&3"]
    traced = subprocess.Popen(["bash", "-c", 'exec 3>&1 >&2; exec "$@"', "epochs", *trace, *program], stdout=subprocess.PIPE, text=True)
    count = blocks = 0
    with open(out, "wb") as file:
        for epoch in epochs(traced.stdout, pattern):
            file.write(struct.pack("<I", len(epoch)))
            for number, content in epoch:
                file.write(struct.pack("<Q", number) + content)
            count, blocks = count + 1, blocks + len(epoch)
    print(f"{count} syncs of {blocks} blocks", file=sys.stderr)
    sys.exit(traced.wait())


if __name__ == "__main__":
    main()
