//! What the last server had promised is applied, in order, before the first request: by the same way as writes, and committed.
//!
//! 1. One after the other: of two promises for one LBN the later one counts.
//! 2. The epoch of a promise may be durable although its server did not live to say so. What an LBN means already stays.
//! 3. A promise that cannot be kept is told of by the next flush.

use crate::admit::{Pending, WriteOp, WriteStage};
use crate::buffer::Slice;
use crate::commit::Stage;
use crate::engine::{Engine, IoFor};
use crate::fingerprint::Digest;
use crate::format::entry::{MapEntry, REFS_MAX};
use crate::interface::{Action, Notice, Promised, RequestId};
use crate::link::Compared;
use crate::pages::{Got, Task};
use crate::units::{BLOCK_SIZE, Lbn, Pbn};

/// Stands for whoever wrote what is recalled.
pub(crate) const RECALLED: RequestId = RequestId(u64::MAX);

impl Engine {
    /// Hands over what the last server had promised, in order, before the first event.
    pub fn recall(&mut self, promises: Vec<Promised>) {
        debug_assert!(self.stage == Stage::Created, "promises are recalled before anything else");
        let named = promises.iter().filter_map(|what| if let Promised::Link { pbn, .. } = what { Some((*pbn, ())) } else { None });
        self.promises.named = named.collect();
        self.promises.recalled = promises.into();
    }

    /// Applies recalled promises, as far as pages in memory allow.
    pub(crate) fn go_on_recalling(&mut self) {
        while let (Stage::Recalling, Some(what)) = (self.stage, self.promises.recalled.front().cloned()) {
            let (logical, data) = (self.geometry.logical_blocks, self.geometry.data_blocks);
            match what {
                Promised::Unmap { first, end } if end.0 <= logical => self.unmap(first, end),
                Promised::Zero { lbn } if lbn.0 < logical => self.set_point(lbn, MapEntry::Zero),
                Promised::Content { lbn, content } if lbn.0 < logical => return self.recall_content(lbn, content),
                Promised::Link { lbn, pbn, slot } if lbn.0 < logical && pbn.0 < data => {
                    if !self.recall_link(lbn, pbn, slot) {
                        return;
                    }
                }
                _ => self.break_promise(),
            }
            self.promises.recalled.pop_front();
        }
        self.serve_when_recalled();
    }

    /// False: a page has to come first.
    fn recall_link(&mut self, lbn: Lbn, pbn: Pbn, slot: u8) -> bool {
        let to = MapEntry::Block { pbn, slot };
        match self.lookup(lbn) {
            Ok(Some(now)) if now == to => return true,
            Ok(_) => {}
            Err(page) => {
                self.wait(page, Task::Recall);
                return false;
            }
        }
        let (page, _) = self.geometry.refs_of(pbn);
        match self.ensure(page) {
            Got::Wait => {
                self.wait(page, Task::Recall);
                return false;
            }
            Got::Unreadable => self.break_promise(),
            Got::Ready => {
                let refs = self.refs_now(pbn);
                if refs >= REFS_MAX {
                    self.break_promise();
                } else {
                    self.change_refs(pbn, 1);
                    self.open.refs_pages.insert(page.index);
                    self.set_point(lbn, to);
                }
            }
        }
        true
    }

    /// Begins to write what was acknowledged. The next promise follows when it has found its place.
    fn recall_content(&mut self, lbn: Lbn, content: Slice) {
        if self.requests.contains_key(&RECALLED) {
            return;
        }
        let base = match self.lookup(lbn) {
            Ok(base) => base,
            Err(page) => return self.wait(page, Task::Recall),
        };
        self.requests.insert(RECALLED, Pending { left: 1, failure: None, durable: None, unspoken: Vec::new() });
        let op = self.writes.insert(WriteOp {
            request: RECALLED,
            lbn,
            sent: content.clone(),
            covers: 0..BLOCK_SIZE,
            whole: Some((content.clone(), Digest::Partial)),
            base,
            pinned: None,
            pinned_other: None,
            compared: Compared::Nothing,
            stage: WriteStage::Digesting,
        });
        let io = self.io(IoFor::DigestForWrite { op });
        self.out.push(Action::Digest { io, block: content });
    }

    /// What is recalled may be where its LBN points to already: the index, which is empty as yet, is told to look there.
    pub(crate) fn look_where_it_was(&mut self, op: usize) {
        let write = &self.writes[op];
        if let (Some(MapEntry::Block { pbn, .. }), Some((_, Digest::Of(fingerprint)))) = (write.base, &write.whole) {
            self.index.insert(fingerprint, pbn);
        }
    }

    /// Recalled content has found its place, or never will.
    pub(crate) fn content_is_recalled(&mut self, good: bool) {
        if !good && !self.failed {
            self.break_promise();
        }
        self.promises.recalled.pop_front();
        self.ready.push_back(Task::Recall);
    }

    /// Something acknowledged is lost: the next flush says so.
    fn break_promise(&mut self) {
        self.promises_lost = true;
        self.notice(Notice::Damage { what: "an acknowledged write of the last server could not be recalled", at: 0 });
    }

    /// Serves once everything recalled is durable.
    pub(crate) fn serve_when_recalled(&mut self) {
        let done = self.promises.recalled.is_empty() && self.open.is_empty() && self.commit.is_none();
        if self.stage != Stage::Recalling || !(done || self.failed) {
            return;
        }
        if self.failed {
            // What was applied may not be durable: no answer that the next opening might contradict (P7). The promises stand.
            self.unflushed = true;
        } else {
            self.out.push(Action::Recalled);
        }
        self.promises.named.clear();
        self.serve();
    }
}
