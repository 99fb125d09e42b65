//! Verification of blocks that were read from the device (P6).

use super::Judged;
use super::Store;
use crate::buffer::Slice;
use crate::fingerprint::{Digest, Fingerprint};
use crate::format::entry::{FingerprintEntry, Kind};
use crate::format::page::PageId;
use crate::interface::Notice;
use crate::tables::Access;
use crate::units::{BLOCK_SIZE, Pbn};

/// The expected content of a block.
pub(crate) enum Expect {
    /// That page has to be loaded first.
    Page(PageId),
    Unknown,
    Fingerprint(Fingerprint),
    /// The short fingerprint: a crash has left no more of it.
    Short(u32),
    Checksum(Fingerprint),
    /// The authenticator of a carrier.
    Carrier(Fingerprint),
}

impl Store {
    /// The expected content of a block, as the fingerprint table or the pending block says.
    pub fn expect_content(&mut self, pbn: Pbn) -> Expect {
        let known = self.space.fresh.get(pbn).filter(|f| f.waits).map(|f| (f.kind, f.fingerprint));
        let (kind, value) = match known {
            Some(known) => known,
            None => {
                let (page, at) = self.geometry.fingerprint_of(pbn);
                match self.tables.ensure(&mut self.io, page) {
                    Access::Loading => return Expect::Page(page),
                    Access::Unreadable => return Expect::Unknown,
                    Access::Ready(resident) => {
                        let entry = resident.page().content.fingerprint(at);
                        (entry.kind, entry.value)
                    }
                }
            }
        };
        match kind {
            Kind::Fingerprint => Expect::Fingerprint(value),
            Kind::Checksum => FingerprintEntry { kind, value }.short().map_or(Expect::Checksum(value), Expect::Short),
            Kind::Carrier => Expect::Carrier(value),
            Kind::None => Expect::Unknown,
        }
    }

    /// The content of a block that was read from the device, or of a slot of it, if it is as expected.
    pub fn verified(&mut self, pbn: Pbn, slot: u8, expect: &Expect, digest: Digest, block: &Slice) -> Option<Slice> {
        let found = self.judge(pbn, slot, expect, digest, block.block(0));
        self.slot_as_judged(pbn, block, slot, found)
    }

    /// Judges a block that was read from the device. If a slot is wanted, the result is for all slots: to judge one costs as much as to
    /// judge the whole carrier.
    pub fn judge(&mut self, pbn: Pbn, slot: u8, expect: &Expect, digest: Digest, block: &[u8; BLOCK_SIZE]) -> Judged {
        match expect {
            _ if slot == 0 => {
                if self.content_is(expect, digest, block) {
                    Judged::Right
                } else {
                    Judged::Wrong
                }
            }
            Expect::Unknown | Expect::Page(_) => self.judge_carrier(pbn, block, None),
            Expect::Carrier(value) => self.judge_carrier(pbn, block, Some(FingerprintEntry { kind: Kind::Carrier, value: *value })),
            Expect::Fingerprint(_) | Expect::Short(_) | Expect::Checksum(_) => Judged::Wrong,
        }
    }

    /// Whether a block's bytes are as expected.
    fn content_is(&self, expect: &Expect, digest: Digest, block: &[u8; BLOCK_SIZE]) -> bool {
        match expect {
            Expect::Fingerprint(value) => digest == Digest::Of(*value),
            Expect::Short(short) => matches!(digest, Digest::Of(value) if value.short() == *short),
            Expect::Checksum(value) => self.keys.fingerprinter.checksum(block) == *value,
            Expect::Unknown | Expect::Page(_) => true,
            // No map entry refers to a carrier as a whole.
            Expect::Carrier(_) => false,
        }
    }

    /// Reports that a block's content differs from its fingerprint (P6), and keeps writes from linking to it.
    pub fn content_damaged(&mut self, pbn: Pbn) {
        self.io.notice(Notice::Damage { what: "content differs from its fingerprint", at: pbn.0 });
        if let Expect::Fingerprint(value) = self.expect_content(pbn) {
            self.index.remove(&value, pbn);
        }
        self.contents.suspects.insert(pbn);
    }
}
