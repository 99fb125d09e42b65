//! The content of a superblock.

use super::fields::{
    INCOMPATIBLE_APART, INCOMPATIBLE_DEFAULTS, INCOMPATIBLE_GUARD, INCOMPATIBLE_LIVE_LOG, INCOMPATIBLE_OTHER_UUID, INCOMPATIBLE_SEAMS,
    INCOMPATIBLE_SLOTS, READ_ONLY_KNOWN,
};
use super::parts::{Features, Lifetime, ProtectedRange, ToCompare};
use super::scrub::{EndedScrubs, ScrubProgress};
use super::settings::StartSettings;
use crate::fingerprint::{Algorithm, Fingerprinter};
use crate::format::authenticator::Authenticator;
use crate::format::geometry::{ExtentKind, Geometry};
use crate::format::key::Key;
use crate::format::log_tail::LogTail;
use crate::format::regions::RegionSize;
use crate::units::{Epoch, Lbn, Pbn};

/// Everything that is needed to open a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    pub features: Features,
    /// The identity of the volume. [`set_uuid`](Self::set_uuid) changes it.
    pub uuid: [u8; 16],
    /// The UUID that the volume was made with. Its pages, the units of its log and its guard block have this one forever.
    pub origin: [u8; 16],
    /// At most [`LABEL_BYTES_MAX`](super::LABEL_BYTES_MAX) bytes, none of them zero.
    pub label: String,
    /// The sector size that clients see: 512 or 4096.
    pub sector_bytes: u32,
    pub geometry: Geometry,
    /// Counts the updates; the copy with the highest counts.
    pub generation: u64,
    /// Counts the openings for writing.
    pub incarnation: u64,
    pub mount_count: u64,
    /// No epoch that was ever used is above it in a clean volume; never repeats.
    pub last_epoch: Epoch,
    pub last_log_sequence: u64,
    /// The volume was closed in order, and needs no recovery.
    pub clean: bool,
    /// Only a finished recount clears it.
    pub garbage_possible: bool,
    /// The block from which an interrupted recount goes on.
    pub recount_position: Pbn,
    /// The newest allocation. The index is rebuilt backwards from it.
    pub allocation_cursor: Pbn,
    pub algorithm: Algorithm,
    pub key: Key,
    /// [`set_defaults`](Self::set_defaults) changes them.
    pub settings: StartSettings,
    pub lifetime: Lifetime,
    /// At most [`PROTECTED_MAX`](super::PROTECTED_MAX).
    pub protected: Vec<ProtectedRange>,
    /// The place where the log scan begins; none where no log was ever begun.
    pub log_tail: Option<LogTail>,
    /// The interval at which a server writes the guard block, in milliseconds; 0 where the volume has none. [`set_guard`](Self::set_guard)
    /// sets it.
    pub guard_ms: u32,
    /// The regions that are still to be compared out of line.
    pub to_compare: ToCompare,
    /// The scrub that is under way, or paused.
    pub scrub: Option<ScrubProgress>,
    /// The scrubs that have ended.
    pub ended_scrubs: EndedScrubs,
}

impl Superblock {
    /// The superblock of a new volume: generation 1, clean, nothing written.
    #[must_use]
    pub fn new(geometry: Geometry, uuid: [u8; 16], key: [u8; 32], algorithm: Algorithm, settings: impl Into<StartSettings>) -> Self {
        Self {
            features: Features::default(),
            uuid,
            origin: uuid,
            label: String::new(),
            sector_bytes: 4096,
            geometry,
            generation: 1,
            incarnation: 0,
            mount_count: 0,
            last_epoch: Epoch(0),
            last_log_sequence: 0,
            clean: true,
            garbage_possible: false,
            recount_position: Pbn(0),
            allocation_cursor: Pbn(0),
            algorithm,
            key: Key(key),
            settings: settings.into(),
            lifetime: Lifetime::default(),
            protected: Vec::new(),
            log_tail: None,
            guard_ms: 0,
            to_compare: ToCompare::default(),
            scrub: None,
            ended_scrubs: EndedScrubs::default(),
        }
    }

    /// Whether an LBN lies in a protected range, whose blocks are not for dedup.
    #[must_use]
    pub fn is_protected(&self, lbn: Lbn) -> bool {
        self.protected.iter().any(|range| range.first <= lbn && lbn.0 - range.first.0 < u64::from(range.blocks))
    }

    /// The fingerprinter of this volume.
    #[must_use]
    pub const fn fingerprinter(&self) -> Fingerprinter {
        Fingerprinter::new(self.algorithm, self.key.0)
    }

    /// The authenticator of the units of this volume's log.
    #[must_use]
    pub fn authenticator(&self) -> Authenticator {
        Authenticator::new(&self.key, &self.origin)
    }

    /// Gives the volume another identity, such as a copy needs that is to be attached beside its original.
    pub fn set_uuid(&mut self, uuid: [u8; 16]) {
        self.uuid = uuid;
        let others = self.features.incompatible & !INCOMPATIBLE_OTHER_UUID;
        self.features.incompatible = others | if uuid == self.origin { 0 } else { INCOMPATIBLE_OTHER_UUID };
    }

    /// Gives the volume other defaults for its attach options.
    pub fn set_defaults(&mut self, settings: StartSettings) {
        self.features.incompatible = self.features.incompatible & !INCOMPATIBLE_DEFAULTS | settings.features();
        self.settings = settings;
    }

    /// Whether the UUID is not the one that the volume was made with.
    #[must_use]
    pub const fn has_other_uuid(&self) -> bool {
        self.features.incompatible & INCOMPATIBLE_OTHER_UUID != 0
    }

    /// Whether opening the volume gives exact counts without a recount: it was closed, or has a log that says what the pages lack.
    #[must_use]
    pub const fn keeps_counts(&self) -> bool {
        self.clean || self.is_log_live()
    }

    /// Whether the pages alone describe the volume: it was closed, and no log has what they lack.
    #[must_use]
    pub const fn is_whole_in_pages(&self) -> bool {
        self.clean && !self.is_log_live()
    }

    /// Whether the log may hold what the pages do not.
    #[must_use]
    pub const fn is_log_live(&self) -> bool {
        self.features.incompatible & INCOMPATIBLE_LIVE_LOG != 0
    }

    /// Says that the log may hold what the pages do not, or that it holds nothing.
    pub fn set_log_live(&mut self, live: bool) {
        let others = self.features.incompatible & !INCOMPATIBLE_LIVE_LOG;
        self.features.incompatible = others | if live { INCOMPATIBLE_LIVE_LOG } else { 0 };
    }

    /// Whether client blocks may lie in slots.
    #[must_use]
    pub const fn has_slots(&self) -> bool {
        self.features.incompatible & INCOMPATIBLE_SLOTS != 0
    }

    /// Says that client blocks may lie in slots. They may forever: no count says when the last one is gone.
    pub fn set_slots(&mut self) {
        self.features.incompatible |= INCOMPATIBLE_SLOTS;
    }

    /// Whether entries may say that a block stays apart.
    #[must_use]
    pub const fn marks_apart(&self) -> bool {
        self.features.incompatible & INCOMPATIBLE_APART != 0
    }

    /// Says that entries may say that a block stays apart. They may forever: no count says when the last one is gone.
    pub fn set_marks_apart(&mut self) {
        self.features.incompatible |= INCOMPATIBLE_APART;
    }

    /// Whether the volume has a guard block.
    #[must_use]
    pub const fn is_guarded(&self) -> bool {
        self.features.incompatible & INCOMPATIBLE_GUARD != 0
    }

    /// Gives a new volume, whose geometry has room for it, a guard block that is written every `interval_ms` milliseconds.
    pub fn set_guard(&mut self, interval_ms: u32) {
        self.features.incompatible |= INCOMPATIBLE_GUARD;
        self.guard_ms = interval_ms;
    }

    /// Describes the volume after it has grown.
    pub fn set_grown(&mut self, geometry: Geometry) {
        let [before, after] = [self.geometry.logical_blocks, geometry.logical_blocks].map(RegionSize::of);
        self.to_compare = ToCompare { regions: self.to_compare.regions.grown(before, after), ..self.to_compare };
        let parts = geometry.extents.iter().filter(|extent| extent.kind == ExtentKind::Data).count();
        self.features.incompatible |= if parts > 1 { INCOMPATIBLE_SEAMS } else { 0 };
        self.geometry = geometry;
    }

    /// The features, unknown to this program, for which it may read the volume but not write it; 0 where it may write.
    #[must_use]
    pub const fn read_only_because(&self) -> u64 {
        self.features.read_only & !READ_ONLY_KNOWN
    }
}
