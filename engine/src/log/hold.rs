//! New content that may ride in a unit is held back, and compressed, until its epoch is sealed.
//!
//! 1. It has a free block of its own from the beginning, and until it is packed that is its place for all who read it or link to it: so what
//!    does not ride has room, and goes there.
//! 2. What looks like noise is not compressed, and held back only where it has neighbours that are: else it would go out one by one, between them.
//!    What does not compress goes to its block as soon as nothing of its epoch is being compressed. Of a large epoch it is moved together with
//!    what is packed (`pack.rs`); without packs, all goes when the epoch grows large.
//! 3. Held content is copied where it would keep a whole request's memory, and counts in the account of memory.
//! 4. Of a stream of large epochs whose packs save nothing, little is compressed (`gain.rs`), until they save something again.

use super::units::SMALL_BLOCKS_MAX;
use crate::buffer::Slice;
use crate::contents::Holding;
use crate::engine::Engine;
use crate::format::codec::looks_random;
use crate::format::entry::Kind;
use crate::interface::{Action, Class, IoId};
use crate::io::IoFor;
use crate::memory::Part;
use crate::promise::Lies;
use crate::settings::Compression;
use crate::units::{BLOCK_BYTES, Epoch, Lbn, Pbn, count, index};

/// Bytes charged for each block that is held, besides its content: what it compresses to.
const HELD_COST_BYTES: u64 = BLOCK_BYTES;

impl Engine {
    /// Bytes of memory that held content takes, besides itself.
    pub(crate) fn held_bytes(&self) -> u64 {
        if self.store.io.failed { 0 } else { count(self.store.contents.held.len()) * HELD_COST_BYTES }
    }

    /// Whether content of a block that is born in the open epoch may be held back, if that is so `small`.
    fn may_hold_back(&self, kind: Kind, small: bool) -> bool {
        let may = self.scheme.log.is_some() && self.store.settings.compression != Compression::Off && kind == Kind::Fingerprint;
        let should = small || self.store.settings.compression == Compression::All;
        // Where memory is short, or the ring that keeps acknowledgements, content goes at once.
        let has_room = || self.store.contents.held.len() < self.held_blocks_max() && self.may_promise_content();
        may && should && has_room()
    }

    /// The most blocks that may be held back at once.
    pub(super) fn held_blocks_max(&self) -> usize {
        // A quarter of the share, with their content.
        index(self.store.memory.accountant.limit(Part::Requests) / 4 / (BLOCK_BYTES + HELD_COST_BYTES))
    }

    /// Whether further writes should wait until some of what is held back was compressed, and is packed.
    pub(crate) fn holds_enough(&self) -> bool {
        // Half of the room is left to a request of many blocks.
        let is_half_full = self.scheme.log.is_some() && self.store.contents.held.len() * 2 >= self.held_blocks_max();
        (is_half_full || self.ring_wants_packs()) && self.log_asks(self.store.tables.open.number) || self.ring_waits_for_content()
    }

    /// Holds back the content of a block that is born in the open epoch, or not. What is to be kept of it.
    pub(crate) fn hold_back(&mut self, kind: Kind, lbn: Lbn, pbn: Pbn, slice: &Slice) -> Option<Slice> {
        let is_small = !self.store.tables.open.is_large();
        if !self.may_hold_back(kind, is_small) {
            return None;
        }
        let (epoch, gain) = (self.store.tables.open.number, &mut self.scheme.log.as_mut().expect("only a log holds content back").gain);
        if !is_small && !gain.tries_next() {
            return None;
        }
        let is_noise = looks_random(slice.block(0));
        if is_noise && !is_small {
            gain.note_noise();
        }
        if is_noise && self.store.contents.held.counts(epoch).held == 0 {
            return None;
        }
        let block = if slice.is_whole_buffer() { slice.clone() } else { self.copy(slice) };
        let asked = (!is_noise).then(|| self.store.io.begin(IoFor::Compress { pbn }));
        self.store.io.out.extend(asked.map(|io| Action::Compress { io, block: block.clone() }));
        self.store.contents.held.add(epoch, pbn, lbn, asked);
        Some(block)
    }

    fn copy(&self, slice: &Slice) -> Slice {
        let mut copy = self.store.io.buffer(1);
        copy.block_mut(0).copy_from_slice(slice.block(0));
        copy.freeze().slice(0, 1)
    }

    /// A held block was compressed, if it could be.
    pub(crate) fn compressed(&mut self, io: IoId, pbn: Pbn, data: Option<Vec<u8>>) {
        if self.store.io.failed {
            return;
        }
        let Some(epoch) = self.store.contents.held.answer(io, pbn, data) else { return };
        if !self.log_asks(epoch) {
            if !self.is_to_be_packed(epoch) {
                self.send_held(epoch, |state| !matches!(state, Holding::Small(_)));
            }
            self.commit_may_go_on();
        }
        self.pack_if_large(epoch);
    }

    /// Whether content of an epoch is being compressed.
    pub(super) fn log_asks(&self, epoch: Epoch) -> bool {
        self.store.contents.held.counts(epoch).asked > 0
    }

    /// The open epoch has grown: if it is no small one any more, nothing of it rides in a unit.
    pub(crate) fn let_large_epoch_go(&mut self) {
        if self.scheme.log.is_some()
            && self.store.tables.open.births.len() == SMALL_BLOCKS_MAX + 1
            && self.store.settings.compression != Compression::All
        {
            self.send_held(self.store.tables.open.number, |_| true);
        }
    }

    /// A pack is born in the open epoch that was not made in it: nothing of it rides in a unit.
    pub(crate) fn let_epoch_of_packs_go(&mut self) {
        self.store.tables.open.has_packs = true;
        if self.store.settings.compression != Compression::All {
            self.send_held(self.store.tables.open.number, |_| true);
        }
    }

    /// Sends what an epoch holds back and that looks so, to its own blocks.
    pub(super) fn send_held(&mut self, epoch: Epoch, wants: impl Fn(&Holding) -> bool) {
        let goes: Vec<Pbn> = self.store.contents.held.of(epoch).filter(|(_, held)| wants(&held.state)).map(|(pbn, _)| pbn).collect();
        self.send_blocks(epoch, goes);
    }

    /// Sends these of what an epoch holds back, in their order.
    pub(super) fn send_blocks(&mut self, epoch: Epoch, goes: Vec<Pbn>) {
        let contents = goes.into_iter().map(|pbn| (pbn, self.take_held(epoch, pbn))).collect();
        self.send_runs(contents);
    }

    /// What an epoch holds back no more, because it goes to its own block.
    pub(super) fn take_held(&mut self, epoch: Epoch, pbn: Pbn) -> Slice {
        let held = self.store.contents.held.remove(epoch, pbn).expect("what goes was held back");
        let fresh = self.store.space.fresh.get(pbn).expect("what is held back is fresh");
        let (content, fingerprint) = (fresh.held.clone().expect("what is held back has its content"), fresh.fingerprint);
        self.content_goes_to(pbn, held.lbns.into_iter().map(|lbn| Lies { lbn, slot: 0, fingerprint }).collect());
        content
    }

    /// Sends content, in the order of its blocks: neighbours in one write.
    pub(super) fn send_runs(&mut self, contents: Vec<(Pbn, Slice)>) {
        let content = |_: &Self, first, blocks| IoFor::Content { first, blocks: count(blocks) };
        self.store.contents.content_in_flight += self.write_blocks(contents, Class::Data, content);
    }
}
