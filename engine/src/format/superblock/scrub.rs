//! The progress of a scrub, as exact as the last superblock: after a restart it goes on from there. And the results of the last one.

use super::fields::{SCRUB_PAUSED, at};
use super::values::one_of;
use crate::format::front::COPIES;
use crate::format::geometry::Geometry;
use crate::format::page::Region;
use crate::format::refused::SuperblockError;

/// A part of the volume, in the order in which a scrub reads them. Each is counted in pieces of 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScrubPart {
    /// The copies of the superblock.
    Superblocks,
    Written,
    Refs,
    Fingerprints,
    Map,
    Data,
    /// The units that an opening would read, from the first one on. Their number changes.
    Log,
}

/// A scrub that is under way, or paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubProgress {
    pub part: ScrubPart,
    /// The next piece of this part: what is before it was looked at. In the log this is 0, since its units move.
    pub next: u64,
    pub is_paused: bool,
    /// Its results so far.
    pub found: ScrubFound,
    /// The most bytes that it reads in a second, in KiB.
    pub kib_per_second: u32,
}

impl ScrubProgress {
    /// Goes on with this piece of its part.
    pub(crate) fn go_to(&mut self, next: u64) {
        self.next = next;
    }

    /// Goes on with the next part.
    ///
    /// # Panics
    /// In the last part.
    pub(crate) fn enter_next_part(&mut self) {
        (self.part, self.next) = (ScrubPart::ALL[self.part as usize + 1], 0);
    }

    /// Goes on at this speed, even if it was paused.
    pub(crate) fn go_on_at(&mut self, kib_per_second: u32) {
        (self.kib_per_second, self.is_paused) = (kib_per_second, false);
    }

    /// Pauses it, or lets it go on.
    pub(crate) fn pause(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
    }
}

/// The results of a scrub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubFound {
    /// The damaged pieces.
    pub damaged: u32,
    /// Those that were damaged and are durably whole again: they were written again, or nothing needs them any more.
    pub mended: u32,
    /// The lost logical blocks that it has come to: nothing says what they hold, and reads of them fail.
    pub lost: u32,
}

/// The scrubs that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndedScrubs {
    /// The number of them; it stays at its maximum.
    pub number: u32,
    /// The results of the last one; none are there before the first.
    pub last: ScrubFound,
}

impl ScrubPart {
    /// All parts, in order.
    pub const ALL: [Self; 7] = [Self::Superblocks, Self::Written, Self::Refs, Self::Fingerprints, Self::Map, Self::Data, Self::Log];

    const fn number(self) -> u64 {
        self as u64 + 1
    }

    /// The region whose pages it is, if it is one of pages.
    #[must_use]
    pub const fn region(self) -> Option<Region> {
        match self {
            Self::Written => Some(Region::Written),
            Self::Refs => Some(Region::Refs),
            Self::Fingerprints => Some(Region::Fingerprints),
            Self::Map => Some(Region::Map),
            Self::Superblocks | Self::Data | Self::Log => None,
        }
    }

    /// The number of its pieces on a volume of this geometry; 0 for the log.
    #[must_use]
    pub fn pieces(self, geometry: &Geometry) -> u64 {
        match (self, self.region()) {
            (_, Some(region)) => geometry.pages(region),
            (Self::Superblocks, _) => COPIES as u64,
            (Self::Data, _) => geometry.data_blocks,
            _ => 0,
        }
    }
}

impl ScrubProgress {
    pub(super) fn encode(progress: Option<&Self>, out: &mut [u8]) {
        let Some(progress) = progress else { return };
        at::SCRUB_PART.set(out, progress.part.number());
        at::SCRUB_STATE.set(out, if progress.is_paused { SCRUB_PAUSED } else { 0 });
        at::SCRUB_DAMAGED.set(out, u64::from(progress.found.damaged));
        at::SCRUB_RATE.set(out, u64::from(progress.kib_per_second));
        at::SCRUB_NEXT.set(out, progress.next);
        at::SCRUB_LOST.set(out, u64::from(progress.found.lost));
        at::SCRUB_MENDED.set(out, u64::from(progress.found.mended));
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Option<Self>, SuperblockError> {
        let number = at::SCRUB_PART.get(bytes);
        if number == 0 {
            return Ok(None);
        }
        let known = ScrubPart::ALL.into_iter().find(|part| part.number() == number);
        let part = known.ok_or(SuperblockError::UnknownValue { field: at::SCRUB_PART.name, value: number })?;
        Ok(Some(Self {
            part,
            next: at::SCRUB_NEXT.get(bytes),
            is_paused: one_of(at::SCRUB_STATE, bytes, &[0, SCRUB_PAUSED])? == SCRUB_PAUSED,
            found: ScrubFound {
                damaged: at::SCRUB_DAMAGED.word(bytes),
                mended: at::SCRUB_MENDED.word(bytes),
                lost: at::SCRUB_LOST.word(bytes),
            },
            kib_per_second: at::SCRUB_RATE.word(bytes),
        }))
    }
}

impl EndedScrubs {
    /// Adds a scrub, which has found this.
    pub fn add(&mut self, found: ScrubFound) {
        *self = Self { number: self.number.saturating_add(1), last: found };
    }

    /// Results without a scrub are not written: no volume has them.
    pub(super) fn encode(&self, out: &mut [u8]) {
        if self.number == 0 {
            return;
        }
        at::SCRUBS_ENDED.set(out, u64::from(self.number));
        at::LAST_SCRUB_DAMAGED.set(out, u64::from(self.last.damaged));
        at::LAST_SCRUB_MENDED.set(out, u64::from(self.last.mended));
        at::LAST_SCRUB_LOST.set(out, u64::from(self.last.lost));
    }

    pub(super) fn decode(bytes: &[u8]) -> Self {
        let last = ScrubFound {
            damaged: at::LAST_SCRUB_DAMAGED.word(bytes),
            mended: at::LAST_SCRUB_MENDED.word(bytes),
            lost: at::LAST_SCRUB_LOST.word(bytes),
        };
        Self { number: at::SCRUBS_ENDED.word(bytes), last }
    }
}
