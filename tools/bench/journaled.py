"""SQLite with a rollback journal or a write-ahead log, and the pages that it writes twice, counted from the files that it leaves.

1. A rollback journal keeps the former content of each page that a transaction changes: it is looked at just before the commit.
2. A write-ahead log holds each page as it will be: a checkpoint writes the last one of each number home. Frames are distinguished by their
   salts, which each checkpoint changes.
"""

import os
import sqlite3

PAGE = 4096
JOURNAL_RECORD = PAGE + 8
SECTOR_AT = slice(20, 24)
WAL_HEADER, FRAME_HEADER = 32, 24
WAL_SALTS, FRAME_SALTS = slice(16, 24), slice(8, 16)


class Base:
    """A database whose transactions are durable when they are committed."""

    def __init__(self, path, mode):
        self.path, self.mode = path, mode
        self.base = sqlite3.connect(path, isolation_level=None)
        if self.base.execute(f"pragma journal_mode={mode}").fetchone() != (mode,):
            raise RuntimeError(f"SQLite has no {mode}")
        self.base.execute(f"pragma page_size={PAGE}")
        self.base.execute("pragma synchronous=full")
        self.logged, self.home, self.aligned = 0, 0, 0
        self.salts, self.next, self.pages = b"", 0, set()

    def commit(self, statements):
        """Runs statements with their values as one transaction."""
        self.base.execute("begin")
        for statement, values in statements:
            self.base.execute(statement, values)
        if self.mode == "delete" and os.path.exists(f"{self.path}-journal"):
            self.count_journal()
        self.base.execute("commit")
        if self.mode == "wal":
            self.count_frames()

    def count_journal(self):
        with open(f"{self.path}-journal", "rb") as file:
            sector = int.from_bytes(file.read(SECTOR_AT.stop)[SECTOR_AT], "big")
            pages = (os.fstat(file.fileno()).st_size - sector) // JOURNAL_RECORD
        self.logged += pages
        self.home += pages
        self.aligned += sum((sector + 4 + page * JOURNAL_RECORD) % PAGE == 0 for page in range(pages))

    def count_frames(self):
        with open(f"{self.path}-wal", "rb") as file:
            salts = file.read(WAL_HEADER)[WAL_SALTS]
            if salts != self.salts:
                self.home, self.salts, self.next, self.pages = self.home + len(self.pages), salts, 0, set()
            while True:
                at = WAL_HEADER + self.next * (FRAME_HEADER + PAGE)
                file.seek(at)
                frame = file.read(FRAME_HEADER)
                if len(frame) < FRAME_HEADER or frame[FRAME_SALTS] != salts:
                    break
                self.pages.add(frame[:4])
                self.aligned += (at + FRAME_HEADER) % PAGE == 0
                self.logged, self.next = self.logged + 1, self.next + 1

    def close(self):
        """Closes the database, and returns the pages in its journal or log, those that are also written home, and those that begin with a
        block."""
        self.base.close()
        self.home, self.pages = self.home + len(self.pages), set()
        return {"logged": self.logged, "home": self.home, "aligned": self.aligned}
