//! Look-ups that read the medium, of a rival whose cache of metadata is bounded.
//!
//! 1. A write looks its contents up in the hash index, and its LBNs in the map, before anything changes: block by block, one page after the
//!    other, as Dmdedup's one worker does. Later changes wait behind it.
//! 2. A block with the hint NODEDUP is looked up in the map alone, and a block whose hash was prefetched too (Using Hints, section 4).
//! 3. Look-ups of reads, of counts and of free blocks cost nothing, and pages of the open epoch and inner nodes are in memory beside the
//!    cache: the counts favour the rival.

use super::look_ups::{LookUp, Looking};
use super::{Dedup, PageRead, Purpose, Scheme};
use onefold_engine::buffer::BufferMut;
use onefold_engine::fingerprint::{Digest, Fingerprint};
use onefold_engine::interface::{Action, Request};
use std::collections::VecDeque;

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
                self.look_ups.count_apart();
            } else if self.prefetched.take(&name).is_some_and(|pbn| self.tables.is_at(&name, pbn)) {
                self.look_ups.count_prefetched();
            } else {
                let read = self.scheme.look_up(LookUp::Name(name));
                self.look_ups.count_name(read.is_some());
                pages.extend(read);
            }
            pages.extend(self.scheme.look_up(LookUp::Lbn(first + i as u64)));
        }
        if pages.is_empty() {
            return Some(request);
        }
        self.looking = Some(Looking::new(request, pages));
        self.read_page(out);
        None
    }

    /// Reads the next page of the look-ups; after the last one, the write is the first in the queue.
    pub(super) fn read_page(&mut self, out: &mut Vec<Action>) {
        let looking = self.looking.as_mut().expect("only a look-up reads pages");
        if let Some(PageRead { at, class }) = looking.next_page() {
            let (io, buffer) = (self.in_flight.issue(Purpose::LookUp), BufferMut::zeroed(1));
            out.push(Action::Read { io, at, buffer, digest: false, is_idle: false, class });
            return;
        }
        let request = self.looking.take().expect("it was there").into_request();
        self.looked = Some(request.id);
        self.stalled.push_front(request);
    }

    /// Returns the request whose look-ups are under way, and ends them.
    pub(super) fn end_look_ups(&mut self) -> Option<Request> {
        self.looking.take().map(Looking::into_request)
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
