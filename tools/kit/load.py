"""A load over NBD that knows what a read of each block must return.

Requests of every kind and alignment, many at a time, never two on one block; a share of the content is drawn from a small pool, so that it
is duplicate. Uses libnbd's own client (python3-libnbd).
"""

import errno
import random
import time

import nbd
from oracle import BLOCK, SECTOR, SECTORS, ZERO, Oracle, Violation, content

DEPTH = 24
RUN_BLOCKS_MAX = 8


class Load:
    """One connection and the requests under way on it."""

    def __init__(self, uri, oracle, seed, strong=False, connect_s=20):
        self.oracle = oracle
        # Whether every acknowledged change is durable.
        self.strong = strong
        self.random = random.Random(seed)
        self.name = seed << 32
        # The intervals at which changes are made durable: epochs of a few blocks, and of hundreds.
        self.eager = self.random.choice((1, 1, 0.1, 0.01))
        self.client = nbd.NBD()
        self.flying = 0
        self.ended = None
        self.violation = None
        self.counts = {}
        deadline = time.monotonic() + connect_s
        while True:
            try:
                self.client.connect_uri(uri)
                break
            except nbd.Error:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
                self.client = nbd.NBD()
        if self.client.get_size() < len(oracle.blocks) * BLOCK:
            raise Violation(f"the export has {self.client.get_size()} bytes, less than before")

    def fresh(self):
        self.name += 1
        return self.name

    def version(self):
        """Draws a whole block's content: one of the pool, or unique."""
        if self.random.random() < 0.4:
            first = (1 + self.random.randrange(40)) * SECTORS
            return tuple(range(first, first + SECTORS))
        if self.random.random() < 0.03:
            return ZERO
        # Names begin with a multiple of eight, so that the whole block compresses alike.
        self.name += SECTORS - 1 - self.name % SECTORS
        return tuple(self.fresh() for _ in range(SECTORS))

    def choose(self, blocks):
        """Draws a run of blocks on which nothing is under way."""
        total = len(self.oracle.blocks)
        # Half of the operations affect a twentieth of the blocks: overwrites, reuse, full pages.
        limit = max(blocks + 1, total // 20) if self.random.random() < 0.5 else total
        for _ in range(20):
            first = self.random.randrange(limit - blocks + 1)
            if not any(self.oracle.blocks[lbn].busy for lbn in range(first, first + blocks)):
                return first
        return None

    def done(self, what, finish, error):
        self.flying -= 1
        self.counts[what] = self.counts.get(what, 0) + 1
        if error:
            self.ended = self.ended or f"{what}: {errno.errorcode.get(error, error)}"
        try:
            finish(error == 0)
        except Violation as violation:
            self.violation = self.violation or violation
        return 1

    def change(self, what, first, versions, send, fua):
        """Sends an operation that gives each block from `first` on its next version."""
        blocks = [self.oracle.blocks[first + i] for i in range(len(versions))]
        numbers = [block.add(version) for block, version in zip(blocks, versions)]
        for block in blocks:
            block.busy = True

        def finish(succeeded):
            for i, (block, number) in enumerate(zip(blocks, numbers)):
                block.busy = False
                if succeeded:
                    self.oracle.acknowledge(first + i, number, fua or self.strong)

        self.flying += 1
        send(lambda error: self.done(what, finish, error.value if hasattr(error, "value") else error))

    def write(self):
        fua = self.random.random() < 0.08 * self.eager
        flags = nbd.CMD_FLAG_FUA if fua else 0
        if self.random.random() < 0.15:
            first = self.choose(1)
            if first is None:
                return
            # This is a part of a block: the rest keeps its content.
            start = self.random.randrange(SECTORS)
            count = self.random.randrange(1, SECTORS - start + 1)
            old = self.oracle.blocks[first].newest()
            new = tuple(self.fresh() if start <= i < start + count else old[i] for i in range(SECTORS))
            data = content(new)[start * SECTOR : (start + count) * SECTOR]
            offset, versions = first * BLOCK + start * SECTOR, [new]
        else:
            length = self.random.choice((1, 1, 1, 2, 4, RUN_BLOCKS_MAX))
            first = self.choose(length)
            if first is None:
                return
            versions = [self.version() for _ in range(length)]
            data, offset = b"".join(map(content, versions)), first * BLOCK
        buffer = nbd.Buffer.from_bytearray(bytearray(data))
        self.change("write", first, versions, lambda done: self.client.aio_pwrite(buffer, offset, completion=done, flags=flags), fua)

    def clear(self, what, call):
        fua = self.random.random() < 0.08 * self.eager
        length = self.random.choice((1, 2, RUN_BLOCKS_MAX))
        first = self.choose(length)
        if first is None:
            return
        flags = nbd.CMD_FLAG_FUA if fua else 0
        self.change(what, first, [ZERO] * length, lambda done: call(length * BLOCK, first * BLOCK, completion=done, flags=flags), fua)

    def flush(self):
        promise = self.oracle.flush_sent()

        def finish(succeeded):
            if succeeded:
                self.oracle.flush_acknowledged(promise)

        self.flying += 1
        self.client.aio_flush(completion=lambda error: self.done("flush", finish, error.value if hasattr(error, "value") else error))

    def read(self):
        length = self.random.choice((1, 4, RUN_BLOCKS_MAX))
        first = self.choose(length)
        if first is None:
            return
        buffer = nbd.Buffer(length * BLOCK)
        numbers = []
        for lbn in range(first, first + length):
            block = self.oracle.blocks[lbn]
            block.busy = True
            numbers.append(block.base + len(block.versions) - 1)

        def finish(succeeded):
            for lbn in range(first, first + length):
                self.oracle.blocks[lbn].busy = False
            if succeeded:
                data = buffer.to_bytearray()
                for i, number in enumerate(numbers):
                    self.oracle.served(first + i, number, bytes(data[i * BLOCK : (i + 1) * BLOCK]))

        self.flying += 1
        offset = first * BLOCK
        self.client.aio_pread(
            buffer, offset, completion=lambda error: self.done("read", finish, error.value if hasattr(error, "value") else error)
        )

    def step(self):
        draw = self.random.random()
        if draw < 0.1 * self.eager:
            self.flush()
        elif draw < 0.72:
            self.write()
        elif draw < 0.77:
            self.clear("trim", self.client.aio_trim)
        elif draw < 0.81:
            self.clear("zero", self.client.aio_zero)
        else:
            self.read()

    def poll(self, timeout_ms):
        try:
            self.client.poll(timeout_ms)
        except nbd.Error as error:
            self.ended = self.ended or str(error)

    def run(self, seconds, steps=None):
        """Runs until the time is over, something failed, or this many steps were sent. Raises on a broken promise."""
        deadline = time.monotonic() + seconds
        while self.ended is None and self.violation is None and time.monotonic() < deadline and steps != 0:
            if self.flying < DEPTH:
                try:
                    self.step()
                except nbd.Error as error:
                    self.ended = self.ended or str(error)
                if steps is not None:
                    steps -= 1
                if self.flying < DEPTH and self.random.random() < 0.9:
                    continue
            self.poll(5)
        if self.violation:
            raise self.violation

    def drain(self, seconds=10):
        """Waits for the requests under way, as far as they still complete."""
        deadline = time.monotonic() + seconds
        while self.flying and time.monotonic() < deadline and not self.client.aio_is_dead() and not self.client.aio_is_closed():
            self.poll(20)
        if self.violation:
            raise self.violation
        return self.flying == 0

    def close(self):
        try:
            self.client.shutdown()
        except nbd.Error:
            pass


def verify(uri, oracle, connect_s=20, judge=Oracle.recovered):
    """Reads every block after a recovery, or after another server went on. Raises if one reads as none of its versions."""
    client = nbd.NBD()
    deadline = time.monotonic() + connect_s
    while True:
        try:
            client.connect_uri(uri)
            break
        except nbd.Error:
            if time.monotonic() > deadline:
                raise
            client = nbd.NBD()
            time.sleep(0.02)
    piece = min(128, client.get_block_size(nbd.SIZE_MAXIMUM) // BLOCK or 128)
    for first, count in oracle.runs(piece):
        data = client.pread(count * BLOCK, first * BLOCK)
        for i in range(count):
            judge(oracle, first + i, bytes(data[i * BLOCK : (i + 1) * BLOCK]))
    client.shutdown()
