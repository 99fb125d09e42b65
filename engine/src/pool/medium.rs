//! The superblock of an open volume, and the update of it that is under way.

use crate::buffer::Slice;
use crate::fingerprint::Fingerprint;
use crate::format::entry::FingerprintEntry;
use crate::format::{FRONT_COPIES, Lifetime, ProtectedRange, Superblock};
use crate::policy::Policy;
use crate::units::{BLOCK_SIZE, Bytes, Epoch, Lbn, Pbn};

/// The update of the superblock that is under way, and the front copies that this server has written.
#[derive(Default)]
pub(crate) struct SuperblockUpdates {
    /// The copies to write once the front copies were read.
    pub due: Vec<(Bytes, Slice)>,
    /// The last front copies that this server has written, with their generations.
    pub written: [Option<(u64, Box<[u8; BLOCK_SIZE]>)>; FRONT_COPIES],
    /// The lifetime ledger before the first update of this server.
    pub lived_before: Option<Lifetime>,
    /// The units that clients had written when the last update began.
    pub client_units: u64,
    /// Somebody has asked for an update.
    pub is_asked: bool,
    /// The update that is under way says that entries may say that a block stays apart.
    pub marks_apart: bool,
    /// The durable updates that did.
    pub marked: u8,
}

/// The medium of an open volume.
pub(crate) struct Medium {
    pub superblock: Superblock,
    /// Whether each pair of copies of the superblock on the medium says that entries may say that a block stays apart.
    pub(super) is_marked_apart: bool,
    /// Whether an update of the superblock is under way.
    pub(super) is_busy: bool,
    /// The number of copies that are under way to the device.
    pub(super) writes_left: u32,
    pub(super) updates: SuperblockUpdates,
}

impl Medium {
    pub fn new(superblock: Superblock) -> Self {
        let is_marked_apart = superblock.marks_apart();
        Self { superblock, is_marked_apart, is_busy: false, writes_left: 0, updates: SuperblockUpdates::default() }
    }

    /// Protects these ranges, and has the superblock updated.
    pub fn protect(&mut self, ranges: Vec<ProtectedRange>) {
        if ranges.iter().any(|range| range.is_found) {
            self.superblock.set_marks_apart();
        }
        self.superblock.set_protected(ranges);
        self.updates.is_asked = true;
    }

    /// Has the next update of the superblock say that entries may say that a block stays apart.
    pub fn mark_apart(&mut self) {
        self.updates.is_asked |= !self.superblock.marks_apart();
        self.superblock.set_marks_apart();
    }

    /// The policy for a block of this LBN: what its request asks for, and what the volume knows of the LBN.
    pub fn policy_of(&self, lbn: Lbn, asked: Policy) -> Policy {
        if self.superblock.is_protected(lbn) { asked.apart() } else { asked }
    }

    /// The entry of a new block that stays apart. It has the mark of that if programs that do not know the mark leave the volume alone
    /// already; otherwise they do after the next update of the superblock.
    pub fn entry_apart(&mut self, checksum: Fingerprint) -> FingerprintEntry {
        let entry = FingerprintEntry::of_checksum(checksum);
        if self.is_marked_apart {
            entry.apart()
        } else {
            self.mark_apart();
            entry
        }
    }

    /// Has the superblock updated for its ledger, or for what else it says, if it may be.
    pub fn ask_for_update(&mut self, is_allowed: bool) {
        self.updates.is_asked = is_allowed;
    }

    /// Notes that a copy of an update is on the device.
    pub fn copy_written(&mut self) {
        self.writes_left -= 1;
    }

    /// Notes that the update has ended, well or not.
    pub fn update_ended(&mut self) {
        self.is_busy = false;
    }

    /// Notes that no count is too high any more.
    pub fn counts_are_exact(&mut self) {
        self.superblock.set_counts_exact();
    }

    /// Has the next recount begin with this block.
    pub fn recount_begins_at(&mut self, pbn: Pbn) {
        self.superblock.set_recount_position(pbn);
    }

    /// Notes that this epoch is durable. Returns the last one that is.
    pub fn epoch_is_durable(&mut self, epoch: Epoch) -> Epoch {
        self.superblock.set_last_epoch(epoch);
        self.superblock.last_epoch
    }

    /// Whether an update of the superblock is under way.
    pub fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Whether copies of it are under way to the device.
    pub fn are_copies_under_way(&self) -> bool {
        self.writes_left > 0
    }
}
