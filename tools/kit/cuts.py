"""Cuts the power under the built binary, round after round; see tools/dev/cuts.sh."""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

import nbd
import onefold
from cutdisk import CutDisk
from load import Load, verify
from oracle import BLOCK, Oracle, Violation


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
        self.counts = {"cuts": 0, "failing stores": 0, "requests": 0, "garbage": 0, "recounts": 0, "in recovery": 0}
        if options.out_of_line:
            self.counts["linked out of line"] = 0

    def fresh_volume(self, seed):
        """Makes a new forgetful disk with a new volume on it."""
        if self.disk:
            self.disk.end()
        mib = self.random.choice((16, 24, 32))
        self.disk = CutDisk(self.options.cutfs, self.mountpoint, mib, seed)
        onefold.run("create", self.disk.path, "--force", "--sector", "512")
        with self.attach() as server:
            client = nbd.NBD()
            client.connect_uri(server.uri)
            blocks = client.get_size() // BLOCK
            client.shutdown()
        # The load uses most of the volume, so that space is short and blocks are reclaimed and reused.
        self.oracle = Oracle(blocks)

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
        self.server = None
        return events

    def fail(self):
        """Makes the store fail from now on, in one of the ways that occur in practice; what follows ends the server."""
        self.counts["failing stores"] += 1
        return self.disk.fail() + "; "

    def check(self):
        """Runs `check --data` on what the crash left: it may find nothing but garbage."""
        found = onefold.findings(self.disk.path)
        others = [f for f in found["findings"] if f["severity"] == "damage"]
        if others or not found["sound"]:
            raise Violation(f"check found what no crash explains: {others[:5]}")
        return sum(f["excess"] or 0 for f in found["findings"])

    def round(self, number):
        options = self.options_of_round()
        self.server = onefold.NbdServer(self.disk.path, self.socket, self.log, *options).ready()
        load = Load(self.server.uri, self.oracle, self.options.seed * 1_000_003 + number, strong="strong" in options)
        load.run(self.random.uniform(0.05, self.options.seconds))
        if self.options.out_of_line:
            self.find_out_of_line()
            load.run(self.random.uniform(0.05, self.options.seconds))
            self.counts["linked out of line"] += onefold.report("stats", self.disk.path)["out_of_line"]["linked"]
        if load.ended:
            raise Violation(f"before any power cut or kill: {load.ended}")
        store_fails = number % 3 == 0
        events = ""
        if store_fails:
            # The clients continue until they notice.
            events += self.fail()
            load.run(self.options.seconds)
        events += self.disaster()
        load.drain(5)
        self.counts["requests"] += sum(load.counts.values())
        while self.random.random() < 0.2:
            # The same happens again, while it recovers.
            events += "; in recovery: "
            recovers_badly = store_fails and self.random.random() < 0.5
            if recovers_badly:
                events += self.fail()
            self.server = onefold.NbdServer(self.disk.path, self.socket, self.log, *options)
            if not recovers_badly and self.random.random() < 0.5:
                self.server.ready()
            time.sleep(self.random.uniform(0, 0.05))
            events += self.disaster()
            self.counts["in recovery"] += 1
        garbage = self.check()
        self.counts["garbage"] += garbage
        with self.attach(*options) as server:
            verify(server.uri, self.oracle)
            if number % 5 == 0:
                self.recount(garbage)
        if number % 5 == 0 and self.check():
            raise Violation("garbage is left after the recount and a detach")
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
            except (Violation, onefold.Failed, nbd.Error, subprocess.TimeoutExpired) as error:
                print(f"round {number} of seed {self.options.seed}: {type(error).__name__}: {error}", flush=True)
                print(f"kept for inspection: {self.work}", flush=True)
                return 1
            if number % self.options.tell == 0 or number == self.options.rounds:
                rate = (time.monotonic() - began) / number
                print(f"round {number}: {events}; {garbage} links too many ({rate:.2f} s a round)", flush=True)
        summary = ", ".join(f"{count} {what}" for what, count in self.counts.items())
        print(f"{self.options.rounds} rounds, seed {self.options.seed}: {summary}; nothing flushed was lost")
        return 0

    def end(self, code):
        if self.server:
            self.server.process.kill()
            self.server.process.wait()
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
