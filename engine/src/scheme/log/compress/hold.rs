//! New content that may ride in a unit is held back, and compressed, until its epoch is sealed.
//!
//! 1. It has a free block of its own from the beginning, and until it is packed, reads and links use that block. So content that does not
//!    ride has room, and goes there.
//! 2. Content that looks like noise is not compressed, and held back only where it has neighbours that are: otherwise it would be written
//!    one by one, between them. Content that does not compress goes to its block as soon as nothing of its epoch is being compressed. In a
//!    large epoch it is moved together with what is packed (`pack.rs`); without packs, all of it goes when the epoch grows large.
//! 3. Held content is copied where it would keep the memory of a whole request, and counts in the account of memory.
//! 4. In a stream of large epochs whose packs save nothing, little is compressed (`estimate.rs`), until packs save something again.

use crate::answers::{Answers, Journal, SlotContent};
use crate::buffer::Slice;
use crate::charge::Memory;
use crate::contents::{Contents, HeldBlock, HeldState};
use crate::format::codec::looks_random;
use crate::format::entry::FingerprintEntry;
use crate::interface::{Action, IoId};
use crate::io::{Io, IoFor};
use crate::memory::Part;
use crate::policy::Policy;
use crate::scheme::log::Log;
use crate::scheme::log::limits::SMALL_BLOCKS_MAX;
use crate::settings::{Compression, Settings};
use crate::space::Space;
use crate::store::Store;
use crate::units::{BLOCK_BYTES, Epoch, Lbn, Pbn, count, index};

/// Bytes charged for each held block, besides its content: room for what it compresses to.
const HELD_COST_BYTES: u64 = BLOCK_BYTES;

/// The most blocks that may be held back at once.
pub(super) fn held_blocks_max(memory: &Memory) -> usize {
    // They take a quarter of the share, with their content.
    index(memory.accountant.limit(Part::Requests) / 4 / (BLOCK_BYTES + HELD_COST_BYTES))
}

impl Log {
    /// Bytes of memory that held content takes, besides itself.
    pub fn held_bytes(&self, io: &Io, contents: &Contents) -> u64 {
        if io.failed { 0 } else { count(contents.held.len()) * HELD_COST_BYTES }
    }

    /// Whether further writes should wait until some held content is compressed, and packed.
    pub fn holds_enough(&self, store: &Store, answers: &Answers) -> bool {
        // Half of the room is left to a request of many blocks.
        let is_half_full = store.contents.held.len() * 2 >= held_blocks_max(&store.memory);
        let wants_packs = is_half_full || answers.journal.wants_packs(&store.settings);
        wants_packs && store.contents.held.asks(store.tables.open.number) || answers.journal.waits_for_content(&store.settings)
    }

    /// Holds back the content of a new block of the open epoch, which has a fingerprint, if it may. Returns the content to be kept.
    pub fn hold_back(&mut self, store: &mut Store, answers: &Answers, lbn: Lbn, pbn: Pbn, slice: &Slice, policy: Policy) -> Option<Slice> {
        let is_small = !store.tables.open.is_large();
        if !may_hold_back(store, &answers.journal, is_small) {
            return None;
        }
        let epoch = store.tables.open.number;
        if !is_small && !self.estimate.tries_next() {
            return None;
        }
        let is_noise = looks_random(slice.block(0));
        if is_noise && !is_small {
            self.estimate.note_noise();
        }
        if is_noise && store.contents.held.counts(epoch).held == 0 {
            return None;
        }
        let block = if slice.is_whole_buffer() { slice.clone() } else { copy(&store.io, slice) };
        let asked = (!is_noise).then(|| store.io.begin(IoFor::Compress { pbn }));
        store.io.out.extend(asked.map(|io| Action::Compress { io, block: block.clone() }));
        store.contents.held.add(epoch, pbn, lbn, asked, policy);
        Some(block)
    }

    /// Takes the compressed content of a held block; `None`: it does not compress.
    pub fn compressed(&mut self, store: &mut Store, answers: &mut Answers, io: IoId, pbn: Pbn, data: Option<Vec<u8>>) {
        if store.io.failed {
            return;
        }
        let Some(epoch) = store.contents.held.answer(io, pbn, data) else { return };
        if !store.contents.held.asks(epoch) {
            if !Self::is_to_be_packed(&store.tables, &store.settings, epoch) {
                send_held(store, &mut answers.journal, epoch, |state| !matches!(state, HeldState::Compressed(_)));
            }
            store.tables.commit_may_go_on(&mut store.io);
        }
        self.pack_if_large(store, answers, epoch);
    }

    /// The open epoch has grown. If it is a small one no more, none of its blocks ride in a unit.
    pub fn release_large_epoch(&mut self, store: &mut Store, answers: &mut Answers) {
        if store.tables.open.new_blocks.len() == SMALL_BLOCKS_MAX + 1 && store.settings.compression != Compression::All {
            send_held(store, &mut answers.journal, store.tables.open.number, |_| true);
        }
    }

    /// A pack that was made in another epoch becomes part of the open one: none of its blocks ride in a unit.
    pub fn release_epoch_of_packs(&mut self, store: &mut Store, answers: &mut Answers) {
        store.tables.open.has_packs = true;
        if store.settings.compression != Compression::All {
            send_held(store, &mut answers.journal, store.tables.open.number, |_| true);
        }
    }
}

/// Whether content of a new block of the open epoch may be held back. `small`: the epoch is a small one.
fn may_hold_back(store: &Store, journal: &Journal, small: bool) -> bool {
    let may = store.settings.compression != Compression::Off;
    let should = small || store.settings.compression == Compression::All;
    // Where memory, or the acknowledgement journal, is short of room, content goes at once.
    may && should && store.contents.held.len() < held_blocks_max(&store.memory) && journal.may_promise_content(store)
}

fn copy(io: &Io, slice: &Slice) -> Slice {
    let mut copy = io.buffer(1);
    copy.block_mut(0).copy_from_slice(slice.block(0));
    copy.freeze().slice(0, 1)
}

/// Sends the held blocks of an epoch that `wants` accepts to their own blocks.
pub fn send_held(store: &mut Store, journal: &mut Journal, epoch: Epoch, wants: impl Fn(&HeldState) -> bool) {
    let goes: Vec<Pbn> = store.contents.held.of(epoch).filter(|(_, held)| wants(&held.state)).map(|(pbn, _)| pbn).collect();
    let contents =
        goes.into_iter().map(|pbn| (pbn, take_held(&store.space, &mut store.contents, &store.settings, journal, epoch, pbn))).collect();
    store.send_contents(contents);
}

/// Takes a held block that goes to its own block. Returns its content.
pub(super) fn take_held(
    space: &Space,
    contents: &mut Contents,
    settings: &Settings,
    journal: &mut Journal,
    epoch: Epoch,
    pbn: Pbn,
) -> Slice {
    let pending = space.pending.get(pbn).and_then(|pending| Some((pending.held.clone()?, pending.fingerprint)));
    let held = contents.held.remove(epoch, pbn).zip(pending);
    let (HeldBlock { lbns, .. }, (content, fingerprint)) = held.expect("a held block is pending, and has its content");
    journal.content_goes_to(
        settings,
        pbn,
        lbns.into_iter().map(|lbn| SlotContent { lbn, slot: 0, name: FingerprintEntry::of(fingerprint) }).collect(),
    );
    content
}
