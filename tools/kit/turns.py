"""Draws what happens in a round, and counts it: each kind has its turn for certain, and a run that lacks one fails."""

import random

# What a run is to have, each at least once.
SUBJECTS = ("rotten", "mended", "scrubs", "grown", "grown attached", "set")


class Turns:
    """Draws whether something has its turn in a round: by chance, and after three rounds without it for certain."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.without = {}

    def due(self, what):
        self.without[what] = self.without.get(what, 0) + 1
        if self.random.random() > 0.3 and self.without[what] < 4:
            return False
        self.without[what] = 0
        return True

    def alternates(self, what):
        """Whether something is the case this time; it is every second time, not the first."""
        self.without[what] = not self.without.get(what, True)
        return self.without[what]


def tell(counts):
    """All counts in a line."""
    return ", ".join(f"{count} {what}" for what, count in counts.items())


def has_all(counts, rounds, least):
    """Whether a run had all that it is to have, if it had at least `least` rounds. Prints what it lacks."""
    missing = [what for what in SUBJECTS if not counts[what]]
    if rounds < least or not missing:
        return True
    print(f"never in {rounds} rounds: {', '.join(missing)}", flush=True)
    return False
