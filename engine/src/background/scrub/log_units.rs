//! The units of the log that an opening would read, compacted ones first.

use super::Scrub;
use super::run::{Expects, LookResult, NextUnit, Run};
use crate::format::geometry::Geometry;
use crate::format::superblock::ScrubPart;
use crate::format::unit;
use crate::interface::Class;
use crate::io::{Arrived, Io};
use crate::pool::Keys;
use crate::scheme::Scheme;
use crate::space::Space;

impl Scrub {
    /// Reads the next unit. Ends the scrub when there is none.
    pub(super) fn read_unit(&mut self, io: &mut Io, space: &mut Space, geometry: &Geometry, scheme: &Scheme) {
        let (compacted, tail) = (scheme.compacted_unit(self.unit.compacted), scheme.flushed_unit(self.unit.sequence));
        let Some((sequence, pbn)) = compacted.map(|pbn| (self.unit.sequence, pbn)).or(tail) else { return self.end(io) };
        let next = NextUnit { sequence, pbn, is_compacted: compacted.is_some(), ..self.unit };
        if next != self.unit {
            (self.unit, self.attempts) = (next, 0);
        }
        space.pin(pbn);
        let at = geometry.block_at(pbn);
        let run = Run { part: ScrubPart::Log, first: 0, pieces: 1, expects: Expects::Unit(self.unit) };
        self.read(io, run, at, Class::Log);
    }

    pub(super) fn judge_unit(space: &mut Space, keys: &Keys, expected: NextUnit, arrived: &Arrived) -> LookResult {
        let found = unit::open(&keys.authenticator, expected.pbn, arrived.buffer.block(0)).filter(|_| arrived.result.is_ok());
        space.unpin(expected.pbn);
        let is_sound = found.is_some_and(|unit| expected.is_compacted || unit.header.sequence == expected.sequence);
        if is_sound { LookResult::Sound } else { LookResult::Bad(0) }
    }
}
