"""Reads the map of a volume that is not attached from its store, by docs/format.md alone, and asks `dump` for single blocks.

1. Only the map of a volume that was detached cleanly is read: then no log has anything to add.
2. A block that holds several LBNs in slots is one block of the medium: damage takes all of them.
"""

import collections
import os

from block import UNIT, onefold

SECTOR_BYTES, SECTOR_ENTRIES, ENTRY_BYTES = 512, 100, 5
# Values below are no PBN.
FIRST_PBN = 16
PBN_BITS = 36
LOST = 2
SECTOR_PRINTS, PRINT_BYTES = 25, 20
# Of a fingerprint's last byte: kind 2, not found damaged, and with the bit of content that stays apart.
APART_MASK, APART = 0b1111_0000, 0b1001_0000
# Kind 3: a carrier or a pack. The number of its slots follows the first eight bytes.
KIND_MASK, CARRIER, SLOTS_AT, SLOTS_MASK = 0b1100_0000, 0b1100_0000, 8, 0b1111


class Medium:
    """What a store holds."""

    def __init__(self, store):
        self.store, self.whole = store, onefold.report("dump", store)
        if self.whole["log_live"] or not self.whole["clean"]:
            raise onefold.Failed(f"{store} was not detached cleanly, or its log is live")
        self.protected = [lbn for first, blocks in self.whole["protected"] for lbn in range(first, first + blocks)]
        self.map, self.lost = self.read_map()
        self.lbns = collections.defaultdict(list)
        for lbn, (pbn, _) in self.map.items():
            self.lbns[pbn].append(lbn)

    def read_map(self):
        """Returns (PBN, slot) of each LBN that has a block, and the number of those that are lost."""
        found, lost = {}, 0
        with open(self.store, "rb") as file:
            for extent in (extent for extent in self.whole["extents"] if extent["region"] == "map"):
                file.seek(extent["at"])
                data, lbn = file.read(extent["bytes"]), extent["first_entry"]
                for sector in range(0, len(data), SECTOR_BYTES):
                    for entry in range(SECTOR_ENTRIES):
                        at = sector + entry * ENTRY_BYTES
                        value = int.from_bytes(data[at : at + ENTRY_BYTES], "little")
                        pbn, slot = value & ((1 << PBN_BITS) - 1), value >> PBN_BITS
                        if pbn >= FIRST_PBN:
                            found[lbn] = (pbn - FIRST_PBN, slot)
                        lost += pbn == LOST
                        lbn += 1
        return found, lost

    def prints(self):
        """Gives each PBN with its entry of the fingerprint table."""
        with open(self.store, "rb") as file:
            for extent in (extent for extent in self.whole["extents"] if extent["region"] == "fingerprints"):
                file.seek(extent["at"])
                data, pbn = file.read(extent["bytes"]), extent["first_entry"]
                for sector in range(0, len(data), SECTOR_BYTES):
                    for at in range(sector, sector + SECTOR_PRINTS * PRINT_BYTES, PRINT_BYTES):
                        yield pbn, data[at : at + PRINT_BYTES]
                        pbn += 1

    def apart(self):
        """Returns the LBNs whose blocks say on the medium that they stay apart."""
        apart = (pbn for pbn, entry in self.prints() if entry[-1] & APART_MASK == APART)
        return {lbn for pbn in apart for lbn in self.lbns.get(pbn, ())}

    def slots(self):
        """Counts the blocks with slots that hold something an LBN means, their slots, those that no LBN means, and the blocks with such."""
        carriers = slots = dead = partly = 0
        for pbn, entry in self.prints():
            if entry[-1] & KIND_MASK == CARRIER and pbn in self.lbns:
                lost = (entry[SLOTS_AT] & SLOTS_MASK) - len({self.map[lbn][1] for lbn in self.lbns[pbn]})
                carriers, slots, dead, partly = carriers + 1, slots + (entry[SLOTS_AT] & SLOTS_MASK), dead + lost, partly + (lost > 0)
        return {"carriers": carriers, "slots": slots, "dead_slots": dead, "partly_dead": partly}

    def story(self, lbn):
        """Returns what `dump` says of an LBN, once that agrees with the map read here."""
        story = onefold.report("dump", self.store, "--lbn", lbn)
        leads = story["leads_to"]
        said = (leads["pbn"], story["slot"]) if leads else None
        if said != self.map.get(lbn):
            raise onefold.Failed(f"`dump --lbn {lbn}` says {said}, and the map {self.map.get(lbn)}")
        return story

    def beside(self, lbn):
        """Returns the other LBNs on the block of this one: those of the same content, and those that lie beside it."""
        pbn, slot = self.map[lbn]
        others = [other for other in self.lbns[pbn] if other != lbn]
        return [other for other in others if self.map[other][1] == slot], [other for other in others if self.map[other][1] != slot]

    def destroy(self, lbn):
        """Overwrites the block that an LBN means on the store, and returns its PBN."""
        place = self.story(lbn)["leads_to"]
        with open(self.store, "r+b") as file:
            file.seek(place["at"])
            file.write(b"\xa5" * UNIT)
            file.flush()
            os.fsync(file.fileno())
        return place["pbn"]
