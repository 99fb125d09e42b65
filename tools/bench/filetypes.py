"""Table 2 of SmartDedup: which types of files bring the duplicates, by the real names of files.

A tree is copied to ext4 on a volume over FUSE and loop. `onefold trace record` has the fingerprint of every block that arrives, and the
extents of the files (FIEMAP, by filefrag) say afterwards whose each block is. The type of a file is the end of its name. A content is a
duplicate if any block was written with it before. What is no file's is metadata: inodes, directories, the journal.

A run has its subject if no request is missing in the recording, and if every block of the copied files was written.

Environment: ONEFOLD_BENCH_TYPES_TREE (/usr/share) is the tree. The result is left in target/hints.json, which `./dev bench papers` shows.
"""

import collections
import os
import re

from block import MIB, UNIT, call, onefold
from hinted import EXT4, Mounted, folder, must
from marked import leave, records

TREE = os.environ.get("ONEFOLD_BENCH_TYPES_TREE", "/usr/share")
# One extent of `filefrag -v`: number, logical blocks, physical blocks.
EXTENT = re.compile(r"\s*\d+:\s+\d+\.\.\s*\d+:\s+(\d+)\.\.\s*(\d+):")
FILES_AT_ONCE = 200
# The types that the report shows; the rest is one row.
SHOWN = 12
# Files without an end of this length have no type that says anything.
END_MOST = 8


def type_of(path):
    """Returns the type of a file by its name: its end, without what only says that it is compressed, or a number."""
    name = os.path.basename(path)
    for end in (".gz", ".xz", ".bz2", ".zst"):
        if name.endswith(end) and "." in name[: -len(end)].strip("."):
            return os.path.splitext(name[: -len(end)])[1].lower() + end
    end = os.path.splitext(name)[1].lower()
    is_type = 1 < len(end) <= END_MOST and not end[1:].isdigit()
    return end if is_type else "(none)"


def owners(at):
    """Returns the type of the file that has each block, by its LBN."""
    files = [os.path.join(where, name) for where, _, names in os.walk(at) for name in names]
    files = [path for path in files if os.path.isfile(path) and not os.path.islink(path)]
    found = {}
    for first in range(0, len(files), FILES_AT_ONCE):
        extents = call("filefrag", "-v", f"-b{UNIT}", *files[first : first + FILES_AT_ONCE])
        kind = None
        for line in extents.splitlines():
            if line.startswith("File size of "):
                kind = type_of(line[len("File size of ") :].rsplit(" is ", 1)[0])
            elif extent := EXTENT.match(line):
                for lbn in range(int(extent[1]), int(extent[2]) + 1):
                    found[lbn] = kind
    return found, len(files)


def counted(rows, of):
    """Counts the blocks written, and the duplicates among them, by type."""
    seen, blocks, duplicates = set(), collections.Counter(), collections.Counter()
    for row in rows:
        if row["op"] != "write":
            continue
        lbn = int(row["offset"]) // UNIT
        for at, name in enumerate(row["fingerprints"].split()):
            kind = of.get(lbn + at, "metadata")
            blocks[kind] += 1
            duplicates[kind] += name in seen
            seen.add(name)
    return blocks, duplicates


def run(_name, options):
    size = int(call("du", "-s", "--block-size=1", TREE).split()[0])
    with folder(options) as path:
        trace = os.path.join(path, "recorded")
        with Mounted(path, size * 3 // 2 + 512 * MIB, "--memory", "256M", mkfs=EXT4) as mounted:
            recorder = onefold.Recorder(mounted.disk.device, trace)
            try:
                call("cp", "-a", TREE, mounted.files)
                call("sync", "-f", mounted.files)
                of, files = owners(mounted.files)
                mounted.unmount()
                summary = recorder.end()
            finally:
                recorder.kill()
        must(summary["gaps"] == 0, f"{summary['gaps']} requests are missing in the recording")
        blocks, duplicates = counted(records(trace), of)
        os.unlink(trace)
    data = sum(count for kind, count in blocks.items() if kind != "metadata")
    must(files > 0 and data >= len(of), f"{data} blocks of files were written, and {len(of)} are theirs")
    order = sorted(blocks, key=lambda kind: -duplicates[kind])
    rows = [{"kind": kind, "blocks": blocks[kind], "duplicates": duplicates[kind]} for kind in order[:SHOWN]]
    rest = order[SHOWN:]
    rows.append({"kind": "others", "blocks": sum(blocks[kind] for kind in rest), "duplicates": sum(duplicates[kind] for kind in rest)})
    left = leave({"tree": TREE, "files": files, "table_2": rows})
    of_files = {kind: count for kind, count in duplicates.items() if kind != "metadata"}
    must(sum(of_files.values()) > 0, "no file has a duplicate")
    most = round(100 * max(of_files.values()) / sum(of_files.values()), 1)
    return {"value": most, "tree": TREE, "files": files, "blocks": sum(blocks.values()), "types": rows, "left in": left}
