"""docs/savings.tsv: what reached the device for each load, bare and on a volume."""

import dataclasses
import os

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "savings.tsv")
HEAD = (
    "# Made by ./dev picture: the bytes that reached the device below ext4, bare and on a volume with default settings (FUSE + loop).\n"
    "# load\tdate\tcommit\tbare bytes\tbytes with Onefold\twords\n"
)


@dataclasses.dataclass
class Row:
    load: str
    date: str
    commit: str
    bare: int
    volume: int
    words: str

    def ratio(self):
        return self.volume / self.bare


def read():
    """Returns the rows, in the order of the file."""
    if not os.path.exists(FILE):
        return []
    with open(FILE, encoding="utf-8") as file:
        fields = [line.rstrip("\n").split("\t") for line in file if not line.startswith("#")]
    return [Row(load, date, commit, int(bare), int(volume), words) for load, date, commit, bare, volume, words in fields]


def write(rows):
    with open(FILE, "w", encoding="utf-8") as file:
        file.write(HEAD)
        for row in rows:
            file.write("\t".join(map(str, dataclasses.astuple(row))) + "\n")
