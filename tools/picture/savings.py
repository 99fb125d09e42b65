"""docs/savings.tsv: what reached the disk for each load: bare, on a volume on that disk, and on one in a file on its file system."""

import dataclasses
import os

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "savings.tsv")
HEAD = (
    "# Made by ./dev picture: the bytes that the kernel has counted at the disk, for ext4 on it, and for ext4 on a volume with default\n"
    "# settings (FUSE + loop) whose store is the disk, and whose store is a file on ext4 on it; - where that was not measured.\n"
    "# load\tdate\tcommit\tbare bytes\tbytes of a volume on the disk\tof one in a file\twords\n"
)


@dataclasses.dataclass
class Row:
    load: str
    date: str
    commit: str
    bare: int
    volume: int
    # None where it was not measured.
    file: int | None
    words: str

    def ratio(self):
        return self.volume / self.bare

    def file_ratio(self):
        return self.file / self.bare


def row_of(load, date, commit, bare, volume, file, words):
    return Row(load, date, commit, int(bare), int(volume), None if file == "-" else int(file), words)


def read():
    """Returns the rows, in the order of the file."""
    if not os.path.exists(FILE):
        return []
    with open(FILE, encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file if not line.startswith("#")]
    return [row_of(*fields) for fields in lines]


def write(rows):
    with open(FILE, "w", encoding="utf-8") as file:
        file.write(HEAD)
        for row in rows:
            file.write("\t".join("-" if field is None else str(field) for field in dataclasses.astuple(row)) + "\n")
