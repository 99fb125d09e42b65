//! The transcript of a run: all that engines asked for and answered, action by action, as one number.
//!
//! 1. Two engines whose transcripts of a run are equal did the same, in the same order, with the same bytes.
//! 2. Left out are the numbers that an engine gives to device operations, on which nothing depends, and the words of notices.
//! 3. A transcript belongs to the thread that takes it.

use onefold_engine::buffer::Slice;
use onefold_engine::interface::{Action, Extent, ExtentKind, Notice, Promise, Promised, Reply, Segment, Trace, Traces};
use std::cell::RefCell;
use std::fmt;
use std::hash::Hasher;
use twox_hash::XxHash3_64;

thread_local! {
    static TAKEN: RefCell<Option<Transcript>> = const { RefCell::new(None) };
}

/// The sum of a transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    pub actions: u64,
    pub hash: u64,
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\t{:016x}", self.actions, self.hash)
    }
}

/// Does `work` on this thread; what it gives, and the transcript of all engines that it runs.
pub fn of<T>(work: impl FnOnce() -> T) -> (T, Sum) {
    TAKEN.set(Some(Transcript { actions: 0, hasher: XxHash3_64::new() }));
    let done = work();
    let Transcript { actions, hasher } = TAKEN.take().expect("it was set, and nobody else takes it");
    (done, Sum { actions, hash: hasher.finish() })
}

/// An engine asks for these, and answers these.
pub fn hear(actions: &[Action]) {
    TAKEN.with_borrow_mut(|taken| {
        if let Some(transcript) = taken {
            actions.iter().for_each(|action| transcript.action(action));
        }
    });
}

struct Transcript {
    actions: u64,
    hasher: XxHash3_64,
}

impl Transcript {
    fn numbers<const N: usize>(&mut self, numbers: [u64; N]) {
        numbers.into_iter().for_each(|number| self.hasher.write(&number.to_le_bytes()));
    }

    fn content(&mut self, slice: &Slice) {
        self.numbers([slice.bytes().len() as u64]);
        self.hasher.write(slice.bytes());
    }

    fn action(&mut self, action: &Action) {
        self.actions += 1;
        match action {
            Action::Read { io: _, at, buffer, digest, is_idle: _, class } => {
                self.numbers([1, at.get(), buffer.bytes().len() as u64, u64::from(*digest), *class as u64]);
            }
            Action::Write { io: _, at, data, class, fua } => {
                self.numbers([2, at.get(), data.len() as u64, *class as u64, u64::from(*fua)]);
                data.iter().for_each(|slice| self.content(slice));
            }
            Action::Flush { io: _ } => self.numbers([3]),
            Action::Discard { io: _, at, length, .. } => self.numbers([4, at.get(), length.get()]),
            Action::Digest { io: _, block } => {
                self.numbers([5]);
                self.content(block);
            }
            Action::Compress { io: _, block } => {
                self.numbers([6]);
                self.content(block);
            }
            Action::Reply { request, reply } => {
                self.numbers([7, request.0]);
                self.reply(reply);
            }
            Action::Wake { at } => self.numbers([8, at.0]),
            Action::Notice(notice) => self.notice(notice),
            Action::Retry => self.numbers([10]),
            Action::Remember(promises) => {
                self.numbers([11, promises.len() as u64]);
                promises.iter().for_each(|promise| self.promise(promise));
            }
            Action::Forget { epoch, traces } => {
                self.numbers([12, epoch.0]);
                self.traces(traces);
            }
            Action::Replayed => self.numbers([13]),
            Action::Closed { clean } => self.numbers([14, u64::from(*clean)]),
        }
    }

    fn reply(&mut self, reply: &Reply) {
        match reply {
            Reply::Done => self.numbers([1]),
            Reply::Failed(failure) => self.numbers([2, *failure as u64]),
            Reply::Extents(extents) => {
                self.numbers([4, extents.len() as u64]);
                for Extent { bytes, kind } in extents {
                    let (kind, first) = match kind {
                        ExtentKind::Hole => (1, 0),
                        ExtentKind::Zeroes => (2, 0),
                        ExtentKind::Data { first, .. } => (3, first.0),
                        ExtentKind::Damaged => (4, 0),
                    };
                    self.numbers([*bytes, kind, first]);
                }
            }
            Reply::Data(segments) => {
                self.numbers([3, segments.len() as u64]);
                for segment in segments {
                    match segment {
                        Segment::Zeroes { bytes } => self.numbers([1, *bytes]),
                        Segment::Data { slice, start, bytes } => {
                            self.numbers([2, *bytes as u64]);
                            self.hasher.write(&slice.bytes()[*start..start + bytes]);
                        }
                    }
                }
            }
        }
    }

    fn promise(&mut self, promise: &Promise) {
        self.numbers([promise.epoch.0]);
        match &promise.what {
            Promised::Link { lbn, pbn, slot, proof } => {
                self.numbers([1, lbn.0, pbn.0, u64::from(*slot)]);
                self.hasher.write(&proof.encode());
            }
            Promised::Content { lbn, content } => {
                self.numbers([2, lbn.0]);
                self.content(content);
            }
            Promised::Zero { lbn } => self.numbers([3, lbn.0]),
            Promised::Unmap { first, end } => self.numbers([4, first.0, end.0]),
        }
    }

    fn traces(&mut self, traces: &Traces) {
        for trace in traces {
            match trace {
                None => self.numbers([0]),
                Some(Trace::Log { sequence }) => self.numbers([1, *sequence]),
                Some(Trace::Map { sector, sum }) => self.numbers([2, *sector, u64::from(*sum)]),
            }
        }
    }

    fn notice(&mut self, notice: &Notice) {
        self.numbers([9]);
        match notice {
            Notice::WentReadOnly { what: _ } => self.numbers([1]),
            Notice::OtherServer { generation, incarnation, is_formatted } => {
                self.numbers([2, *generation, *incarnation, u64::from(*is_formatted)]);
            }
            Notice::Ousted => self.numbers([3]),
            Notice::CountersUsedUp => self.numbers([4]),
            Notice::Damage { what: _, at } => self.numbers([5, *at]),
            Notice::Filling { percent, unpacked } => {
                let unpacked = unpacked.map_or([0; 3], |u| [u.least, u.most, u.of]);
                self.numbers([6, *percent, unpacked[0], unpacked[1], unpacked[2]]);
            }
            Notice::Full { wait_ms, .. } => self.numbers([7, *wait_ms]),
            Notice::NoSpace { waited_ms, .. } => self.numbers([8, *waited_ms]),
            Notice::RoomAgain => self.numbers([9]),
            Notice::Opening(progress) => {
                self.numbers([10, progress.units, progress.units_most, progress.records, progress.records_on_pages]);
            }
            Notice::Serving => self.numbers([11]),
            Notice::IndexRebuilt { entries, named, unnamed, goes_on } => {
                self.numbers([12, *entries, *named, *unnamed, u64::from(*goes_on)]);
            }
            Notice::NoRoomForLog => self.numbers([13]),
            Notice::AcknowledgedLost { writes } => self.numbers([14, *writes]),
            Notice::SetBack => self.numbers([15]),
            Notice::Recounted { blocks } => self.numbers([16, *blocks]),
            Notice::Mended { what: _, at } => self.numbers([17, *at]),
            Notice::Scrubbed { damaged, mended, lost: 0 } => self.numbers([18, *damaged, *mended]),
            Notice::Scrubbed { damaged, mended, lost } => self.numbers([18, *damaged, *mended, *lost]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_engine::interface::RequestId;

    #[test]
    fn order_and_content_count_and_what_nobody_takes_does_not() {
        let done = |n: u64| Action::Reply { request: RequestId(n), reply: Reply::Done };
        let sum = |actions: &[Action]| of(|| hear(actions)).1;
        let both = sum(&[done(1), done(2)]);
        assert_eq!(both, sum(&[done(1), done(2)]));
        assert_ne!(both.hash, sum(&[done(2), done(1)]).hash);
        assert_ne!(both.hash, sum(&[done(1), Action::Retry]).hash);
        hear(&[done(1)]);
        assert_eq!(sum(&[]).actions, 0);
    }
}
