//! Look-ups that read the medium, of a rival whose cache of metadata is bounded.
//!
//! 1. A write looks its contents up in the hash index, and its LBNs in the map, before anything changes: block by block, one page after the
//!    other, as Dmdedup's one worker does. Later changes wait behind it.
//! 2. A block with the hint NODEDUP is looked up in the map alone, and a block whose hash was prefetched too (Using Hints, section 4).
//! 3. Look-ups of reads, of counts and of free blocks cost nothing, and pages of the open epoch and inner nodes are in memory beside the
//!    cache: the counts favour the rival.

use super::{Dedup, PageRead, Purpose, Scheme};
use onefold_engine::buffer::BufferMut;
use onefold_engine::fingerprint::{Digest, Fingerprint};
use onefold_engine::interface::{Action, Request};
use std::collections::VecDeque;

/// An entry to look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookUp {
    Lbn(u64),
    Name(Fingerprint),
}

/// A write whose look-ups are under way, and the pages that they have yet to read.
pub struct Looking {
    request: Request,
    pages: VecDeque<PageRead>,
}

/// Counts of look-ups.
#[derive(Clone, Copy, Default)]
pub struct LookUpCounts {
    names: u64,
    /// Those that read a page.
    names_read: u64,
    prefetched: u64,
    apart: u64,
}

impl LookUpCounts {
    pub fn facts(&self) -> [(&'static str, u64); 4] {
        [
            ("look-ups in the hash index", self.names),
            ("look-ups in the hash index that read the medium", self.names_read),
            ("hashes found prefetched", self.prefetched),
            ("blocks without a hash", self.apart),
        ]
    }
}

impl<S: Scheme> Dedup<S> {
    /// Looks a write up. Returns it if nothing has to be read for it, or all was read; otherwise it goes on when its pages are there.
    pub(super) fn look_up(&mut self, request: Request, first: u64, out: &mut Vec<Action>) -> Option<Request> {
        if self.looked.take_if(|id| *id == request.id).is_some() {
            return Some(request);
        }
        let mut pages = VecDeque::new();
        let digests = request.payload.iter().flat_map(|payload| &payload.digests);
        for (i, digest) in digests.enumerate() {
            let name = match digest {
                Digest::Of(name) => *name,
                _ => Fingerprint([0; 20]),
            };
            if request.policies.of(i).is_apart() {
                self.look_ups.apart += 1;
            } else if self.prefetched.take(&name).is_some_and(|pbn| self.tables.is_at(&name, pbn)) {
                self.look_ups.prefetched += 1;
            } else {
                let read = self.scheme.look_up(LookUp::Name(name));
                self.look_ups.names += 1;
                self.look_ups.names_read += u64::from(read.is_some());
                pages.extend(read);
            }
            pages.extend(self.scheme.look_up(LookUp::Lbn(first + i as u64)));
        }
        if pages.is_empty() {
            return Some(request);
        }
        self.looking = Some(Looking { request, pages });
        self.read_page(out);
        None
    }

    /// Reads the next page of the look-ups; after the last one, the write is the first in the queue.
    pub(super) fn read_page(&mut self, out: &mut Vec<Action>) {
        let looking = self.looking.as_mut().expect("only a look-up reads pages");
        if let Some(PageRead { at, class }) = looking.pages.pop_front() {
            let (io, buffer) = (self.in_flight.issue(Purpose::LookUp), BufferMut::zeroed(1));
            out.push(Action::Read { io, at, buffer, digest: false, is_idle: false, class });
            return;
        }
        let Looking { request, .. } = self.looking.take().expect("it was there");
        self.looked = Some(request.id);
        self.stalled.push_front(request);
    }

    /// Returns the request whose look-ups are under way, and ends them.
    pub(super) fn end_look_ups(&mut self) -> Option<Request> {
        self.looking.take().map(|looking| looking.request)
    }

    /// Enters what a marked read will bring: a client writes only what it has read.
    pub(super) fn prefetch(&mut self, request: &Request, first: u64, blocks: u64) {
        for (i, lbn) in (first..first + blocks).enumerate() {
            if request.policies.of(i).is_prefetched() {
                if let Some((name, pbn)) = self.tables.name_at(lbn) {
                    self.prefetched.enter(name, pbn);
                }
            }
        }
    }
}
