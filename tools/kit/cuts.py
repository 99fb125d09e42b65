"""Cuts the power under the built binary, round after round; see tools/dev/cuts.sh."""

import argparse
import contextlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

import backing
import nbd
import noise
import onefold
from changes import Changes, create
from cutdisk import CutDisk
from load import Load, verify
from noise import Noise, OverNbd
from oracle import Oracle, Violation
from scrubs import Scrubs
from turns import SUBJECTS, Turns, has_all, tell

# From this number of rounds on, each kind of change has to have happened.
ROUNDS_OF_ALL = 30
VOLUME_MIB = 16


class Cuts:
    def __init__(self, options):
        self.options = options
        self.random = random.Random(options.seed)
        self.work = tempfile.mkdtemp(prefix="onefold-cuts.", dir=options.dir)
        self.mountpoint = os.path.join(self.work, "mnt")
        os.mkdir(self.mountpoint)
        os.environ["ONEFOLD_RUN_DIR"] = os.path.join(self.work, "run")
        self.socket = os.path.join(self.work, "socket")
        self.log = open(os.path.join(self.work, "server.log"), "w", encoding="utf-8")
        self.disk = None
        self.server = None
        self.oracle = None
        self.turns = Turns(options.seed)
        self.changes = None
        self.scrubs = None
        self.noise = None
        self.metadata = []
        self.counts = {"cuts": 0, "failing stores": 0, "requests": 0, "garbage": 0, "recounts": 0, "in recovery": 0}
        self.counts |= dict.fromkeys((*SUBJECTS, "mended by scrubs", "scrubs continued", "cut off", "refused"), 0)
        if options.out_of_line:
            self.counts["linked out of line"] = 0

    def fresh_volume(self, seed):
        """Makes a new forgetful disk with a new volume on a part of it."""
        self.end_volume()
        self.disk = CutDisk(self.options.cutfs, self.mountpoint, self.random.choice((28, 32, 36)), seed)
        create(self.disk.path, VOLUME_MIB, self.work, "--sector", "512")
        self.changes = Changes(self.disk, self.random, self.counts)
        self.scrubs = Scrubs(self.disk.path, self.random, self.counts)
        self.noise = Noise(self.random, self.counts)
        extents = onefold.report("dump", self.disk.path)["extents"]
        self.metadata = [extent for extent in extents if extent["region"] in ("fingerprints", "map")]
        with self.attach() as server:
            blocks = self.changes.opened()
            # The load uses all the rest, so that space is short and blocks are reclaimed and reused.
            self.oracle = Oracle(blocks)
            self.oracle.set_apart(range(blocks - noise.BLOCKS, blocks))
            with self.noise_of(server) as door:
                self.noise.write_all(door)
        self.noise.note_named(self.disk.path)

    def end_volume(self):
        """Writes anew what has rotted, finds nothing else damaged, and takes the disk away."""
        if not self.disk:
            return
        with self.attach() as server, self.noise_of(server) as door:
            self.noise.verify(door)
            self.noise.write_anew(door, True, chance=1)
            self.noise.verify(door)
        if self.scrubs.check(self.noise):
            raise Violation("garbage is left after a detach")
        self.disk.end()
        self.disk = None

    def noise_of(self, server):
        return contextlib.closing(OverNbd(server.uri, sorted(self.oracle.apart)))

    def attach(self, *options):
        cuts = self

        class Attached:
            def __enter__(self):
                cuts.server = onefold.NbdServer(cuts.disk.path, cuts.socket, cuts.log, *options).ready()
                return cuts.server

            def __exit__(self, kind, *_):
                if kind is None:
                    cuts.server.detach()
                    cuts.server = None

        return Attached()

    def options_of_round(self):
        options = ["--memory", self.random.choice(("4M", "16M", "64M"))]
        options += ["--commit-mode", self.random.choice(onefold.MODES[self.options.commit_mode])]
        if options[-1] == "log":
            options += ["--compress", self.random.choice(("all", "all", "carriers", "off"))]
            if self.random.random() < 0.4:
                # The store supports FUA: cutfs keeps a synced write, and only that.
                options += ["--fua", "on"]
        if self.random.random() < 0.2:
            options += ["--persistence", "strong"]
        if self.random.random() < 0.5:
            options += ["--noncritical-delay", self.random.choice(("0", "20", "300"))]
        if self.random.random() < 0.3:
            options += ["--commit-period", self.random.choice(("20", "100"))]
        if self.random.random() < 0.3:
            options += ["--anticipation", "0"]
        if self.options.out_of_line:
            options += ["--index-memory", "512"]
        return options

    def find_out_of_line(self):
        """Has all blocks looked at while the load goes on; nobody waits for the end."""
        onefold.run("dedup", self.disk.path, "--all", "--no-wait")

    def disaster(self):
        """Ends server and disk in one of the ways that occur in practice; a part of what was not flushed is lost."""
        how = self.random.random()
        if how < 0.5:
            # The power is cut: the device is gone first, the server with its memory a moment later.
            events = self.disk.cut()
            time.sleep(self.random.choice((0, 0, 0.01)))
            self.server.kill()
        elif how < 0.8:
            self.server.kill()
            events = self.disk.cut()
        else:
            # Only the server ends; the device keeps what it holds until a later power cut (R8).
            self.server.kill()
            events = "killed only"
        self.disk.power()
        if events != "killed only":
            self.counts["cuts"] += 1
        self.server.forget()
        self.server = None
        return events

    def fail(self):
        """Makes the store fail from now on, in one of the ways that occur in practice; what follows ends the server."""
        self.counts["failing stores"] += 1
        return self.disk.fail() + "; "

    def load_and_grow(self, load, seed):
        """Has the volume grow under the load. A disaster may find it under way. Returns the load, and the growth that has not ended."""
        growth = self.changes.begin_growth()
        if growth is None:
            return load, None
        load.run(self.random.uniform(0, 0.3))
        if self.turns.alternates("a disaster during growth"):
            return load, growth
        failure = self.changes.end_growth(growth, True)
        if failure:
            raise Violation(f"a growth under load failed: {failure}")
        load.drain(5)
        # Its connection has ended with its server.
        self.counts["requests"] += sum(load.counts.values())
        verify(self.server.uri, self.oracle, judge=Oracle.taken_over)
        self.oracle.extend(self.changes.opened())
        load = Load(self.server.uri, self.oracle, seed, strong=load.strong)
        load.run(self.random.uniform(0.05, self.options.seconds))
        return load, None

    def spoil_metadata(self):
        """Changes a bit of a page that the server has in memory."""
        pages = [at for at, _ in backing.pages(self.disk.path) if any(0 <= at - e["at"] < e["bytes"] for e in self.metadata)]
        backing.rot(self.disk.path, self.random.choice(pages), self.random.randrange(backing.PAGE * 8))

    def round(self, number):
        options = self.options_of_round()
        strong = "strong" in options
        grows = self.turns.due("grow attached")
        if grows:
            self.server = onefold.NbdVolume(self.disk.path, self.socket, *options)
        else:
            self.server = onefold.NbdServer(self.disk.path, self.socket, self.log, *options).ready()
        self.oracle.extend(self.changes.opened())
        seed = self.options.seed * 1_000_003 + number
        load = Load(self.server.uri, self.oracle, seed, strong=strong)
        if self.turns.due("scrub under load"):
            self.scrubs.begin()
        load.run(self.random.uniform(0.05, self.options.seconds))
        if self.options.out_of_line:
            self.find_out_of_line()
            load.run(self.random.uniform(0.05, self.options.seconds))
            self.counts["linked out of line"] += onefold.report("stats", self.disk.path)["out_of_line"]["linked"]
        with self.noise_of(self.server) as door:
            self.noise.write_anew(door, strong)
        if load.ended:
            raise Violation(f"before any power cut or kill: {load.ended}")
        growth = None
        if grows:
            load, growth = self.load_and_grow(load, seed + (1 << 20))
        store_fails = number % 3 == 0
        events = ""
        if store_fails:
            # The clients continue until they notice.
            events += self.fail()
            load.run(self.options.seconds)
        events += self.disaster()
        if growth:
            events += f"; growth under way, {'cut off' if self.changes.end_growth(growth, False) else 'ended'}"
        load.drain(5)
        self.counts["requests"] += sum(load.counts.values())
        while self.random.random() < 0.2:
            events += "; in recovery: " + self.recover_badly(options, store_fails)
        events += self.changes.offline(self.noise, self.turns)
        return self.recover(number, options, events)

    def recover_badly(self, options, store_fails):
        """The same happens again, while it recovers."""
        events = ""
        recovers_badly = store_fails and self.random.random() < 0.5
        if recovers_badly:
            events += self.fail()
        self.server = onefold.NbdServer(self.disk.path, self.socket, self.log, *options)
        if not recovers_badly and self.random.random() < 0.5:
            self.server.ready()
        time.sleep(self.random.uniform(0, 0.05))
        events += self.disaster()
        self.counts["in recovery"] += 1
        return events

    def recover(self, number, options, events):
        """Checks what a disaster has left, offline and attached."""
        garbage = self.scrubs.check(self.noise)
        self.counts["garbage"] += garbage
        scrubs = self.turns.due("scrub")
        is_closed = True
        with contextlib.ExitStack() as until_detached:
            server = until_detached.enter_context(self.attach(*options))
            self.oracle.extend(self.changes.opened())
            verify(server.uri, self.oracle)
            with self.noise_of(server) as door:
                self.noise.verify(door)
            if number % 5 == 0:
                self.recount(garbage)
            if scrubs:
                self.scrubs.scrub(self.noise, self.spoil_metadata)
            if scrubs and self.random.random() < 0.5:
                # What was mended is so on the disk.
                until_detached.pop_all()
                is_closed = False
                events += "; scrubbed: " + self.disaster()
        if (scrubs or number % 5 == 0) and self.scrubs.check(self.noise) and is_closed and number % 5 == 0:
            raise Violation("garbage is left after the recount and a detach")
        if is_closed:
            self.changes.settle()
            self.noise.note_named(self.disk.path)
            if self.turns.due("repair"):
                self.scrubs.repair(self.noise)
        return events, garbage

    def recount(self, garbage):
        """Waits for the recount, which must return exactly what `check` had found."""
        def stats():
            return onefold.report("stats", self.disk.path)

        onefold.wait_for(lambda: not stats()["space"]["garbage_possible"], 60, "the recount")
        returned = stats()["space"]["recounted_blocks"]
        if returned != garbage:
            raise Violation(f"check found {garbage} links too many, the recount returned {returned}")
        self.counts["recounts"] += 1

    def run(self):
        began = time.monotonic()
        for number in range(1, self.options.rounds + 1):
            try:
                if number % 50 == 1:
                    self.fresh_volume(self.options.seed * 1009 + number)
                events, garbage = self.round(number)
                if number == self.options.rounds:
                    self.end_volume()
            except (Violation, onefold.Failed, nbd.Error, OSError, subprocess.TimeoutExpired) as error:
                print(f"round {number} of seed {self.options.seed}: {type(error).__name__}: {error}", flush=True)
                print(f"kept for inspection: {self.work}", flush=True)
                if self.disk:
                    self.disk.keep(os.path.join(self.work, "disk"))
                return 1
            if number % self.options.tell == 0 or number == self.options.rounds:
                rate = (time.monotonic() - began) / number
                print(f"round {number}: {events}; {garbage} links too many ({rate:.2f} s a round)", flush=True)
        print(f"{self.options.rounds} rounds, seed {self.options.seed}: {tell(self.counts)}; nothing flushed was lost")
        return 0 if has_all(self.counts, self.options.rounds, ROUNDS_OF_ALL) else 1

    def end(self, code):
        if self.server:
            with contextlib.suppress(OSError, onefold.Failed):
                self.server.kill()
                self.server.forget()
        if self.disk:
            self.disk.end()
        self.log.close()
        if code == 0:
            shutil.rmtree(self.work)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.6)
    parser.add_argument("--tell", type=int, default=25)
    parser.add_argument("--commit-mode", choices=onefold.MODES, default="any")
    parser.add_argument("--out-of-line", action="store_true")
    parser.add_argument("--dir", default=None)
    parser.add_argument("--cutfs", required=True)
    cuts = Cuts(parser.parse_args())
    code = 1
    try:
        code = cuts.run()
    finally:
        cuts.end(code)
    return code


if __name__ == "__main__":
    sys.exit(main())
