//! Verification of blocks that were read from the device (P6).

use super::BlockCondition;
use super::Pool;
use super::expected::ExpectedContent;
use crate::buffer::Slice;
use crate::fingerprint::Digest;
use crate::format::entry::{FingerprintEntry, Kind};
use crate::tables::Access;
use crate::units::{BLOCK_SIZE, Pbn};

impl Pool {
    /// The expected content of a block, as the fingerprint table or the pending block says.
    pub fn expect_content(&mut self, pbn: Pbn) -> ExpectedContent {
        let known = self.space.pending.get(pbn).filter(|f| f.waits).map(|f| (f.kind, f.fingerprint));
        let (kind, value) = match known {
            Some(known) => known,
            None => {
                let (page, at) = self.geometry.fingerprint_of(pbn);
                match self.tables.ensure(&mut self.io, page) {
                    Access::Loading => return ExpectedContent::Page(page),
                    Access::Unreadable => return ExpectedContent::Unknown,
                    Access::Ready(resident) => {
                        let entry = resident.page().content.fingerprint(at);
                        (entry.kind, entry.value)
                    }
                }
            }
        };
        match kind {
            Kind::Fingerprint => ExpectedContent::Fingerprint(value),
            Kind::Checksum => FingerprintEntry { kind, value }.short().map_or(ExpectedContent::Checksum(value), ExpectedContent::Short),
            Kind::Carrier => ExpectedContent::Carrier(value),
            Kind::None => ExpectedContent::Unknown,
        }
    }

    /// The content of a block that was read from the device, or of a slot of it, if it is as expected.
    pub fn verified(&mut self, pbn: Pbn, slot: u8, expect: &ExpectedContent, digest: Digest, block: &Slice) -> Option<Slice> {
        let found = self.judge(pbn, slot, expect, digest, block.block(0));
        self.slot_as_judged(pbn, block, slot, found)
    }

    /// Judges a block that was read from the device. If a slot is wanted, the result is for all slots: to judge one costs as much as to
    /// judge the whole carrier.
    pub fn judge(&mut self, pbn: Pbn, slot: u8, expect: &ExpectedContent, digest: Digest, block: &[u8; BLOCK_SIZE]) -> BlockCondition {
        match expect {
            _ if slot == 0 => {
                if self.keys.content_is(expect, digest, block) {
                    BlockCondition::Right
                } else {
                    BlockCondition::Wrong
                }
            }
            ExpectedContent::Unknown | ExpectedContent::Page(_) => self.judge_carrier(pbn, block, None),
            ExpectedContent::Carrier(value) => {
                self.judge_carrier(pbn, block, Some(FingerprintEntry { kind: Kind::Carrier, value: *value }))
            }
            ExpectedContent::Fingerprint(_) | ExpectedContent::Short(_) | ExpectedContent::Checksum(_) => BlockCondition::Wrong,
        }
    }

    /// Judges a block that may have held the content of a write, and does not. `block` is none if it could not be read.
    #[cold]
    pub fn judge_candidate(&mut self, pbn: Pbn, in_slots: bool, block: Option<&Slice>) {
        let Some(block) = block.map(|block| block.block(0)) else { return self.block_damaged(pbn, "a block cannot be read") };
        let found = match self.expect_content(pbn) {
            ExpectedContent::Fingerprint(value) if !in_slots => self.keys.fingerprinter.digest(block) == Digest::Of(value),
            expect @ ExpectedContent::Carrier(_) if in_slots => {
                self.judge(pbn, 1, &expect, Digest::Partial, block) == BlockCondition::Right
            }
            // It has another entry by now.
            _ => true,
        };
        if !found {
            self.content_damaged(pbn);
        }
    }
}
