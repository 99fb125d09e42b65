//! The verdict on one block: its count against its links.

use super::finding::Finding;
use super::links::Links;
use super::report::Counts;
use crate::format::{FingerprintEntry, Kind, REFS_UNKNOWN};
use crate::units::Pbn;

/// One block as it was read. A part is `None` where its sector was damaged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) pbn: Pbn,
    /// Links from the map, as many as could be read.
    pub(super) links: Links,
    pub(super) refs: Option<u8>,
    pub(super) fingerprint: Option<FingerprintEntry>,
}

/// The verdict on a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    Sound,
    /// The count itself says that it is not known.
    Unknown,
    /// The count is this much higher than any links that there may be.
    Excess(u64),
    Broken(Finding),
}

impl Block {
    fn has_fingerprint(&self) -> bool {
        self.fingerprint.is_some_and(|f| !f.is_none())
    }

    /// Compares the count with the links (P3). A fingerprint that could not be read may be a link or none.
    pub(super) fn judgement(&self) -> Judgement {
        let links = self.links.number();
        if let Some(entry) = self.fingerprint.filter(|_| links > 0) {
            let is_carrier = entry.kind == Kind::Carrier;
            if self.links.slot_max() > 0 && !is_carrier {
                return Judgement::Broken(Finding::SlotOfNoCarrier { pbn: self.pbn });
            }
            if self.links.whole() && is_carrier {
                return Judgement::Broken(Finding::LinkToCarrier { pbn: self.pbn });
            }
        }
        let Some(refs) = self.refs else { return Judgement::Sound };
        let least = links + u64::from(self.has_fingerprint());
        let most = least + u64::from(self.fingerprint.is_none());
        match u64::from(refs) {
            _ if refs == REFS_UNKNOWN => Judgement::Unknown,
            0 if links > 0 => Judgement::Broken(Finding::LinkToFree { pbn: self.pbn, links }),
            0 if least > 0 => Judgement::Broken(Finding::FingerprintOnFree { pbn: self.pbn }),
            counted if counted < least => Judgement::Broken(Finding::RefsTooLow { pbn: self.pbn, refs, links: least }),
            counted if counted > most => Judgement::Excess(counted - most),
            _ => Judgement::Sound,
        }
    }

    /// Counts it under its kind.
    pub(super) fn count(&self, counts: &mut Counts) {
        let class = match (self.links.number(), self.refs) {
            (1, _) => &mut counts.unique,
            (2.., _) => &mut counts.shared,
            (0, _) if self.has_fingerprint() => &mut counts.fingerprint_only,
            (0, Some(0)) => &mut counts.free,
            (0, None | Some(REFS_UNKNOWN)) => &mut counts.unknown,
            (0, Some(_)) if self.fingerprint.is_none() => &mut counts.unknown,
            (0, Some(_)) => &mut counts.garbage,
        };
        *class += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::Fingerprint;

    const PBN: Pbn = Pbn(7);
    const SOME: Option<FingerprintEntry> = Some(FingerprintEntry::of(Fingerprint([1; 20])));
    const NONE: Option<FingerprintEntry> = Some(FingerprintEntry::NONE);

    fn judgement(links: u64, refs: Option<u8>, fingerprint: Option<FingerprintEntry>) -> Judgement {
        let mut found = Links::default();
        (0..links).for_each(|_| found.add(0));
        Block { pbn: PBN, links: found, refs, fingerprint }.judgement()
    }

    #[test]
    fn slots_are_of_carriers_and_of_nothing_else() {
        let judgement = |slot, kind| {
            let mut links = Links::default();
            links.add(slot);
            let fingerprint = Some(FingerprintEntry { kind, value: Fingerprint([1; 20]) });
            Block { pbn: PBN, links, refs: Some(2), fingerprint }.judgement()
        };
        assert_eq!(judgement(1, Kind::Carrier), Judgement::Sound);
        assert_eq!(judgement(0, Kind::Carrier), Judgement::Broken(Finding::LinkToCarrier { pbn: PBN }));
        assert_eq!(judgement(2, Kind::Fingerprint), Judgement::Broken(Finding::SlotOfNoCarrier { pbn: PBN }));
    }

    #[test]
    fn each_link_and_the_fingerprint_count_one() {
        for (links, fingerprint, refs) in [(0, NONE, 0), (0, SOME, 1), (1, NONE, 1), (1, SOME, 2), (253, SOME, 254), (254, NONE, 254)] {
            assert_eq!(judgement(links, Some(refs), fingerprint), Judgement::Sound);
        }
    }

    #[test]
    fn less_is_broken_and_more_is_excess() {
        assert_eq!(judgement(2, Some(2), SOME), Judgement::Broken(Finding::RefsTooLow { pbn: PBN, refs: 2, links: 3 }));
        assert_eq!(judgement(2, Some(0), SOME), Judgement::Broken(Finding::LinkToFree { pbn: PBN, links: 2 }));
        assert_eq!(judgement(0, Some(0), SOME), Judgement::Broken(Finding::FingerprintOnFree { pbn: PBN }));
        assert_eq!(judgement(255, Some(254), NONE), Judgement::Broken(Finding::RefsTooLow { pbn: PBN, refs: 254, links: 255 }));
        assert_eq!(judgement(2, Some(7), SOME), Judgement::Excess(4));
        assert_eq!(judgement(0, Some(1), NONE), Judgement::Excess(1));
    }

    #[test]
    fn what_could_not_be_read_accuses_nobody() {
        assert_eq!(judgement(5, None, SOME), Judgement::Sound);
        assert_eq!(judgement(300, Some(REFS_UNKNOWN), SOME), Judgement::Unknown);
        assert_eq!(judgement(1, Some(2), None), Judgement::Sound, "the fingerprint may be there");
        assert_eq!(judgement(2, Some(2), None), Judgement::Sound, "or not");
        assert_eq!(judgement(1, Some(3), None), Judgement::Excess(1));
        assert_eq!(judgement(3, Some(2), None), Judgement::Broken(Finding::RefsTooLow { pbn: PBN, refs: 2, links: 3 }));
    }
}
