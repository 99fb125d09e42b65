"""What `scrub`, `check --data` and `check --repair` say of a volume on which nothing but noise has rotted (noise.py)."""

import onefold
from oracle import Violation


class Scrubs:
    def __init__(self, volume, draw, counts):
        self.volume = volume
        self.random = draw
        self.counts = counts

    def begin(self):
        """Orders a scrub that what follows interrupts."""
        done = onefold.run("scrub", self.volume, "--no-wait", "--rate", self.random.choice(("1M", "16M", "1G")), check=False)
        # It also tells of the damage that an earlier one has found.
        if done.returncode not in (0, onefold.DAMAGED):
            raise Violation(f"onefold scrub --no-wait ended with {done.returncode}: {done.stderr}")

    def end(self):
        """Waits for the scrub that is under way, or for another."""
        done = onefold.run("scrub", self.volume, "--rate", "1G", "--json", check=False)
        if done.returncode not in (0, onefold.DAMAGED):
            raise Violation(f"onefold scrub ended with {done.returncode}: {done.stderr}")
        self.counts["scrubs"] += 1
        return done.returncode

    def scrub(self, noise, spoil):
        """Scrubs to the end: first what an earlier server has begun, then from the beginning, after `spoil` has changed metadata."""
        if onefold.report("scrub", self.volume, "--status", check=False)["is_under_way"]:
            self.end()
            self.counts["scrubs continued"] += 1
        # A block that was found damaged, and that nothing maps to any more, counts as damaged until a recount has put its count right.
        onefold.wait_for(lambda: not onefold.report("stats", self.volume)["space"]["garbage_possible"], 120, "the recount")
        spoil()
        code = self.end()
        found = onefold.report("scrub", self.volume, "--status", check=False)
        rotten, _ = noise.damage()
        if found["damaged_blocks"] != rotten or code != (onefold.DAMAGED if rotten else 0):
            raise Violation(f"{rotten} blocks are rotten, and the scrub ended with {code} and found {found}")
        self.counts["mended by scrubs"] += found["mended_blocks"]

    def check(self, noise):
        """Runs `check --data`: it may find garbage, and of damage only that of the noise. Returns the links that are too many."""
        found = onefold.findings(self.volume)
        damage = [finding for finding in found["findings"] if finding["severity"] == "damage"]
        others = [finding for finding in damage if finding["kind"] != "content-differs"]
        least, most = noise.damage()
        if others or not least <= len(damage) <= most or found["sound"] != (not damage):
            raise Violation(f"check found what neither a crash nor {least} to {most} rotten blocks explain: {(others or damage)[:5]}")
        return sum(finding["excess"] or 0 for finding in found["findings"])

    def repair(self, noise):
        """Checks that the repair of a volume which was closed in order gives back garbage, and changes nothing else."""
        found = onefold.report("check", self.volume, "--repair", "--yes")
        if any(found[what] for what in ("log", "superblock_copies", "entries_dropped", "entries_rebuilt", "lost")):
            raise Violation(f"there was something to repair: {found}")
        if self.check(noise):
            raise Violation("garbage is left after a repair")
