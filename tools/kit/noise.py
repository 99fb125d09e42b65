"""Blocks of known noise outside the load. They rot while the volume is offline, and are written anew.

1. A sound block was flushed with its content, and reads right.
2. A rotten one fails each read, and goes on to fail over restarts and disasters until it is written anew. It is never read wrong, nor
   right: the next server would otherwise link right content to it.
3. One that was written anew and not flushed reads right until a disaster. After it, it reads right or is rotten still.

Only a block that has its fingerprint on the medium rots: a power loss in mode `ordered` may leave a block without one until the index
rebuild has given it one, and until then nothing knows what it held.
"""

import errno
import hashlib
import mmap
import os

import backing
import nbd
import onefold
from oracle import Violation

BLOCK = 4096
BLOCKS = 8
ABSENT, SOUND, ROTTEN, ANEW = "absent", "sound", "rotten", "written anew"


class OverNbd:
    """The blocks as a client of NBD reaches them."""

    def __init__(self, uri, lbns):
        self.lbns = lbns
        self.client = nbd.NBD()
        self.client.connect_uri(uri)

    def read(self, number):
        """Returns the content of a block; none if the read fails."""
        try:
            return bytes(self.client.pread(BLOCK, self.lbns[number] * BLOCK))
        except nbd.Error as error:
            if error.errnum != errno.EIO:
                raise
            return None

    def write(self, number, content):
        self.client.pwrite(content, self.lbns[number] * BLOCK)

    def flush(self):
        self.client.flush()

    def close(self):
        self.client.shutdown()


class InFile:
    """The blocks as a file has them, past the page cache."""

    def __init__(self, path):
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT)
        self.page = mmap.mmap(-1, BLOCK)

    def read(self, number):
        """Returns the content of a block; none if the read fails."""
        try:
            length = os.preadv(self.file, [self.page], number * BLOCK)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return None
        return self.page[:length]

    def write(self, number, content):
        self.page[:] = content
        os.pwritev(self.file, [self.page], number * BLOCK)

    def flush(self):
        os.fsync(self.file)

    def close(self):
        os.close(self.file)


class Noise:
    """What each of the blocks is."""

    def __init__(self, random, counts):
        self.random = random
        self.counts = counts
        seed = random.randrange(1 << 60)
        self.contents = [hashlib.shake_128(f"noise {seed} {number}".encode()).digest(BLOCK) for number in range(BLOCKS)]
        self.states = [ABSENT] * BLOCKS
        # Whether its fingerprint is on the medium for certain.
        self.named = [False] * BLOCKS
        # The number of reads, each after a restart, that found it rotten.
        self.failed = [0] * BLOCKS

    def of_state(self, *states):
        return [number for number, state in enumerate(self.states) if state in states]

    def damage(self):
        """Returns the least and the most blocks whose content `check --data` finds to differ."""
        return len(self.of_state(ROTTEN)), len(self.of_state(ROTTEN, ANEW))

    def write_all(self, door):
        for number, content in enumerate(self.contents):
            door.write(number, content)
        door.flush()
        self.states = [SOUND] * BLOCKS

    def waits_for_names(self):
        return any(not self.named[number] for number in self.of_state(SOUND))

    def note_named(self, volume):
        """Notes which blocks have their fingerprint on the medium, of a volume that was closed in order."""
        wanted = {self.contents[number]: number for number in self.of_state(SOUND) if not self.named[number]}
        if not wanted:
            return
        extents = [extent for extent in onefold.report("dump", volume)["extents"] if extent["region"] == "data"]
        for content, places in backing.places(volume, wanted).items():
            for at in places:
                for extent in extents:
                    if extent["at"] <= at < extent["at"] + extent["bytes"]:
                        story = onefold.report("dump", volume, "--pbn", extent["first_entry"] + (at - extent["at"]) // BLOCK)
                        named = story["kind"] == "fingerprint" and story["content"] == "agrees"
                        self.named[wanted[content]] |= named and story["links"]["count"] > 0

    def rot(self, volume):
        """Has up to three sound blocks rot, in each place that holds them. Returns a description."""
        sound = [number for number in self.of_state(SOUND) if self.named[number]]
        chosen = self.random.sample(sound, min(len(sound), self.random.choice((1, 2, 3))))
        for content, places in backing.places(volume, [self.contents[number] for number in chosen]).items():
            number = self.contents.index(content)
            if not places:
                raise Violation(f"the store does not hold block {number} of the noise, which was flushed")
            for at in places:
                backing.rot(volume, at, self.random.randrange(BLOCK * 8))
            self.states[number], self.named[number], self.failed[number] = ROTTEN, False, 0
            self.counts["rotten"] += 1
        return f"blocks {chosen} of the noise rot"

    def verify(self, door):
        """Reads each block after a restart."""
        for number, state in enumerate(self.states):
            held = door.read(number)
            is_right = held == self.contents[number]
            if held is not None and not is_right:
                raise Violation(f"block {number} of the noise, {state}, reads wrong")
            if is_right != (state == SOUND) and state != ANEW:
                raise Violation(f"block {number} of the noise is {state}, and a read " + ("is right" if is_right else "fails"))
            if state == ANEW:
                self.states[number] = SOUND if is_right else ROTTEN
                self.counts["mended"] += is_right
            self.failed[number] += not is_right

    def write_anew(self, door, is_strong, chance=0.4):
        """Writes blocks anew that a read has found rotten. Without a flush, what follows decides."""
        chosen = [number for number in self.of_state(ROTTEN) if self.failed[number] and self.random.random() < chance]
        for number in chosen:
            door.write(number, self.contents[number])
            self.states[number] = ANEW
            if door.read(number) != self.contents[number]:
                raise Violation(f"block {number} of the noise was written anew, and does not read so")
        is_flushed = self.random.random() < max(0.5, chance)
        if is_flushed:
            door.flush()
        if is_flushed or is_strong:
            self.counts["mended"] += len(chosen)
            for number in chosen:
                self.states[number] = SOUND
