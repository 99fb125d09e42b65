//! The copies of the superblock, one at a time. A server that may write has written all of them when it opened. One that only reads has
//! not: a crash may have torn the copies of an update, so a bad one proves no damage.

use super::Scrub;
use super::run::{Expects, LookResult, Run};
use crate::format::geometry::Geometry;
use crate::format::superblock::{ScrubPart, Superblock};
use crate::format::{copies, pair_of};
use crate::interface::Class;
use crate::io::{Arrived, Io};
use crate::pool::Medium;
use crate::units::index;

impl Scrub {
    pub(super) fn read_superblock(&mut self, io: &mut Io, medium: &Medium, geometry: &Geometry, copy: u64) {
        if io.is_read_only() {
            return self.advance(io, geometry, ScrubPart::Superblocks.pieces(geometry));
        }
        if medium.is_busy() {
            self.pause = Some(io.now().plus_ms(super::AGAIN_MS));
            return;
        }
        let superblock = &medium.superblock;
        let (at, generation) = (copies(superblock.geometry.device_bytes)[index(copy)], superblock.generation);
        let run = Run { part: ScrubPart::Superblocks, first: copy, pieces: 1, expects: Expects::Superblock { generation } };
        self.read(io, run, at, Class::Superblock);
    }

    /// Judges a copy. One of the newest pair has to be of the present generation, or the device has lost its write.
    pub(super) fn judge_superblock(medium: &Medium, copy: u64, generation: u64, arrived: &Arrived) -> LookResult {
        let superblock = &medium.superblock;
        if medium.is_busy() || superblock.generation != generation {
            return LookResult::Unproved(0);
        }
        let is_newest = pair_of(generation).contains(&index(copy));
        let found = Superblock::decode(arrived.buffer.block(0), index(copy)).ok().filter(|_| arrived.result.is_ok());
        let is_sound = found.is_some_and(|found| found.origin == superblock.origin && (found.generation == generation || !is_newest));
        if is_sound { LookResult::Sound } else { LookResult::Bad(0) }
    }
}
