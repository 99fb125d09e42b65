//! A recording of the requests that the kernel hands over: of any disk, or of a volume that is one.

use super::marks::Marks;
use super::{Bios, Missing};
use crate::exit::Outcome;
use crate::runtime::recording::entry::NAME_BYTES;
use crate::runtime::recording::idle::yield_to_others;
use crate::runtime::recording::recorder::Tally;
use crate::runtime::recording::{About, Order, failed};
use onefold_engine::units;
use onefold_trace::header::Header;
use onefold_trace::record::{ContentName, Op, Record};
use onefold_trace::recording::Writer;
use serde::Serialize;
use std::time::Duration;

/// The longest wait for requests, after which blocks are written in time.
const LOOK: Duration = Duration::from_millis(50);

/// The summary of a recording of a disk, beside the tally that every recording has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// Blocks of recorded writes whose content is in the trace.
    pub blocks_known: u64,
    /// Blocks of writes whose content found no room; the writes themselves may be missing, too.
    pub blocks_without_room: u64,
    /// Pieces of content that the kernel could not read.
    pub pieces_unreadable: u64,
    /// Blocks that a write covered in part, or that belong to a write which begins within a block.
    pub blocks_partial: u64,
    /// Requests of the recorder itself, which are left out.
    pub own_requests: u64,
}

/// A recording of a disk that is under way.
pub struct Recording {
    bios: Bios,
    marks: Marks,
    writer: Writer,
    order: Order,
    about: About,
    tally: Tally,
    blocks_known: u64,
}

impl Recording {
    /// Begins a recording of requests that are seen already. This thread gets a low priority.
    ///
    /// # Errors
    /// When the trace cannot be made.
    pub fn begin(bios: Bios, order: Order) -> Outcome<Self> {
        let algorithm = bios.fingerprinter().algorithm();
        let key_id = bios.fingerprinter().key_id();
        let about = About { algorithm: algorithm.name().to_owned(), key_id, fingerprints_of_volume: false };
        let header = Header {
            algorithm: Some(algorithm),
            width: NAME_BYTES,
            key_id: about.key_id.clone(),
            clock: "monotonic".to_owned(),
            origin_ns: bios.origin_ns(),
            device_bytes: Some(bios.device_bytes()),
            ..Header::default()
        };
        let writer = Writer::create(&order.file, &header, order.sync_after).map_err(|e| failed(e.into(), &order))?;
        yield_to_others();
        Ok(Self { bios, marks: Marks::default(), writer, order, about, tally: Tally::default(), blocks_known: 0 })
    }

    /// Returns the facts about it as it began.
    #[must_use]
    pub const fn about(&self) -> &About {
        &self.about
    }

    /// Returns the way in for beginnings of phases.
    #[must_use]
    pub const fn marks(&self) -> &Marks {
        &self.marks
    }

    /// Records what comes within a moment.
    ///
    /// # Errors
    /// When the trace cannot be written. What was written before is sound.
    pub fn go_on(&mut self) -> Outcome {
        let Self { bios, marks, writer, order, tally, blocks_known, .. } = self;
        bios.wait(LOOK)?;
        let mut written = Ok(());
        let mut push = |record: Record| {
            if written.is_ok() {
                written = writer.push(&record);
            }
        };
        // Before the requests: those that were there before a mark are all there now.
        let mut queue = marks.take(bios.origin_ns());
        let gap = bios.gather(|record| {
            queue.before(record.time_ns).for_each(&mut push);
            count(&record, tally, blocks_known);
            push(record);
        });
        queue.before(u64::MAX).for_each(&mut push);
        if let Some(gap) = gap {
            tally.gap_stretches += 1;
            tally.gaps += gap.requests;
            written = written.and_then(|()| writer.push_gap(gap));
        }
        written.and_then(|()| writer.write_if_due()).map_err(|e| failed(e.into(), order))
    }

    /// Ends it; every request that was seen is in the trace then.
    ///
    /// # Errors
    /// When the trace cannot be written. What was written before is sound.
    pub fn end(mut self) -> Outcome<(Tally, Seen)> {
        self.go_on()?;
        let Missing { blocks, unreadable, own, .. } = self.bios.missing();
        let bytes = self.writer.finish().map_err(|e| failed(e.into(), &self.order))?;
        let known = self.blocks_known;
        let partial = self.tally.blocks.saturating_sub(known + blocks + unreadable);
        let seen = Seen {
            blocks_known: known,
            blocks_without_room: blocks,
            pieces_unreadable: unreadable,
            blocks_partial: partial,
            own_requests: own,
        };
        Ok((Tally { bytes, ..self.tally }, seen))
    }
}

fn count(record: &Record, tally: &mut Tally, blocks_known: &mut u64) {
    tally.records += 1;
    if record.op == Op::Write {
        tally.blocks += record.blocks_touched();
        let known = record.blocks.iter().filter(|block| block.name != ContentName::Unknown);
        *blocks_known += units::count(known.count());
    }
}
