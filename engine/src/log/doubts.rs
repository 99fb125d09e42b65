//! An opening compares what may not have been flushed with its records (L5).

use super::open::READS_MAX;
use crate::buffer::BufferMut;
use crate::engine::{Engine, IoFor};
use crate::fingerprint::Digest;
use crate::format::entry::{FingerprintEntry, Kind};
use crate::interface::{Class, IoFailure};
use crate::units::Pbn;

impl Engine {
    /// Reads what is to be compared; when all of it was, the opening goes on.
    pub(super) fn read_doubts(&mut self) {
        while self.log_opening().reads < READS_MAX {
            let Some((pbn, name)) = self.log_opening().doubts.pop() else { break };
            self.log_opening().reads += 1;
            let at = self.geometry.block_at(pbn);
            self.read_in(IoFor::DoubtRead { pbn, name }, at, 1, name.kind == Kind::Fingerprint, Class::Data);
        }
        if self.log_opening().reads == 0 {
            let opening = self.log_opening();
            let (ended, wrong) = (opening.ended.take().expect("the walk was read"), std::mem::take(&mut opening.wrong));
            self.adopt(ended, &wrong, true);
        }
    }

    pub(crate) fn doubt_arrived(
        &mut self,
        pbn: Pbn,
        name: FingerprintEntry,
        buffer: BufferMut,
        digests: &[Digest],
        result: Result<(), IoFailure>,
    ) {
        if result.is_err() {
            return self.opening_read_failed(IoFor::DoubtRead { pbn, name }, pbn, name.kind == Kind::Fingerprint, Class::Data);
        }
        if self.log_opening.is_none() {
            return;
        }
        let is_right = match name.kind {
            Kind::Fingerprint => digests.first() == Some(&Digest::Of(name.value)),
            _ => self.fingerprinter.checksum(buffer.block(0)) == name.value,
        };
        let opening = self.log_opening();
        opening.reads -= 1;
        if is_right {
            opening.again.push((pbn, buffer.freeze().slice(0, 1)));
        } else {
            opening.wrong.insert(pbn);
        }
        self.read_doubts();
    }
}
