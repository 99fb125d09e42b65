//! New content that may ride in a unit is held back, and compressed, until its epoch is sealed.
//!
//! 1. It has a free block of its own from the beginning, and until it is packed, reads and links use that block. So content that does not
//!    ride has room, and goes there.
//! 2. Content that looks like noise is not compressed, and held back only where it has neighbours that are: otherwise it would be written
//!    one by one, between them. Content that does not compress goes to its block as soon as nothing of its epoch is being compressed. In a
//!    large epoch it is moved together with what is packed (`pack.rs`); without packs, all of it goes when the epoch grows large.
//! 3. Held content is copied where it would keep the memory of a whole request, and counts in the account of memory.
//! 4. In a stream of large epochs whose packs save nothing, little is compressed (`estimate.rs`), until packs save something again.

use crate::ack_journal::{AckJournal, SlotContent};
use crate::answers::Answers;
use crate::buffer::Slice;
use crate::charge::Memory;
use crate::contents::{Contents, HeldBlock, HeldState};
use crate::format::codec::looks_random;
use crate::format::entry::FingerprintEntry;
use crate::interface::{Action, IoId};
use crate::io::{Io, IoFor};
use crate::memory::Part;
use crate::policy::Policy;
use crate::pool::Pool;
use crate::scheme::log::Log;
use crate::scheme::log::limits::SMALL_BLOCKS_MAX;
use crate::settings::{Compression, Settings};
use crate::space::Space;
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
        if io.has_failed() { 0 } else { count(contents.held.len()) * HELD_COST_BYTES }
    }

    /// Whether further writes should wait until some held content is compressed, and packed.
    pub fn holds_enough(&self, pool: &Pool, answers: &Answers) -> bool {
        // Half of the room is left to a request of many blocks.
        let is_half_full = pool.contents.held.len() * 2 >= held_blocks_max(&pool.memory);
        let wants_packs = is_half_full || answers.ack_journal.wants_packs(&pool.settings);
        wants_packs && pool.contents.held.asks(pool.tables.open.number) || answers.ack_journal.waits_for_content(&pool.settings)
    }

    /// Holds back the content of a new block of the open epoch, which has a fingerprint, if it may. Returns the content to be kept.
    pub fn hold_back(&mut self, pool: &mut Pool, answers: &Answers, lbn: Lbn, pbn: Pbn, slice: &Slice, policy: Policy) -> Option<Slice> {
        let is_small = !pool.tables.open.is_large();
        if !may_hold_back(pool, &answers.ack_journal, is_small) {
            return None;
        }
        let epoch = pool.tables.open.number;
        if !is_small && !self.estimate.tries_next() {
            return None;
        }
        let is_noise = looks_random(slice.block(0));
        if is_noise && !is_small {
            self.estimate.note_noise();
        }
        if is_noise && pool.contents.held.counts(epoch).held == 0 {
            return None;
        }
        let block = if slice.is_whole_buffer() { slice.clone() } else { copy(&pool.io, slice) };
        let asked = (!is_noise).then(|| pool.io.begin(IoFor::Compress { pbn }));
        asked.into_iter().for_each(|io| pool.io.act(Action::Compress { io, block: block.clone() }));
        pool.contents.held.add(epoch, pbn, lbn, asked, policy);
        Some(block)
    }

    /// Takes the compressed content of a held block; `None`: it does not compress.
    pub fn compressed(&mut self, pool: &mut Pool, answers: &mut Answers, io: IoId, pbn: Pbn, data: Option<Vec<u8>>) {
        if pool.io.has_failed() {
            return;
        }
        let Some(epoch) = pool.contents.held.answer(io, pbn, data) else { return };
        if !pool.contents.held.asks(epoch) {
            if !Self::is_to_be_packed(&pool.tables, &pool.settings, epoch) {
                send_held(pool, &mut answers.ack_journal, epoch, |state| !matches!(state, HeldState::Compressed(_)));
            }
            pool.tables.commit_may_go_on(&mut pool.io);
        }
        self.pack_if_large(pool, answers, epoch);
    }

    /// The open epoch has grown. If it is a small one no more, none of its blocks ride in a unit.
    pub fn release_large_epoch(&mut self, pool: &mut Pool, answers: &mut Answers) {
        if pool.tables.open.new_blocks.len() == SMALL_BLOCKS_MAX + 1 && pool.settings.compression != Compression::All {
            send_held(pool, &mut answers.ack_journal, pool.tables.open.number, |_| true);
        }
    }

    /// A pack that was made in another epoch becomes part of the open one: none of its blocks ride in a unit.
    pub fn release_epoch_of_packs(&mut self, pool: &mut Pool, answers: &mut Answers) {
        pool.tables.open.gets_packs();
        if pool.settings.compression != Compression::All {
            send_held(pool, &mut answers.ack_journal, pool.tables.open.number, |_| true);
        }
    }
}

/// Whether content of a new block of the open epoch may be held back. `small`: the epoch is a small one.
fn may_hold_back(pool: &Pool, journal: &AckJournal, small: bool) -> bool {
    let may = pool.settings.compression != Compression::Off;
    let should = small || pool.settings.compression == Compression::All;
    // Where memory, or the acknowledgement journal, is short of room, content goes at once.
    may && should && pool.contents.held.len() < held_blocks_max(&pool.memory) && journal.may_promise_content(pool)
}

fn copy(io: &Io, slice: &Slice) -> Slice {
    let mut copy = io.buffer(1);
    copy.block_mut(0).copy_from_slice(slice.block(0));
    copy.freeze().slice(0, 1)
}

/// Sends the held blocks of an epoch that `wants` accepts to their own blocks.
pub fn send_held(pool: &mut Pool, journal: &mut AckJournal, epoch: Epoch, wants: impl Fn(&HeldState) -> bool) {
    let goes: Vec<Pbn> = pool.contents.held.of(epoch).filter(|(_, held)| wants(&held.state)).map(|(pbn, _)| pbn).collect();
    let contents =
        goes.into_iter().map(|pbn| (pbn, take_held(&pool.space, &mut pool.contents, &pool.settings, journal, epoch, pbn))).collect();
    pool.send_contents(contents);
}

/// Takes a held block that goes to its own block. Returns its content.
pub(super) fn take_held(
    space: &Space,
    contents: &mut Contents,
    settings: &Settings,
    journal: &mut AckJournal,
    epoch: Epoch,
    pbn: Pbn,
) -> Slice {
    let pending = space.pending.get(pbn).and_then(|pending| Some((pending.content.clone()?, pending.fingerprint)));
    let held = contents.held.remove(epoch, pbn).zip(pending);
    let (HeldBlock { lbns, .. }, (content, fingerprint)) = held.expect("a held block is pending, and has its content");
    journal.content_goes_to(
        settings,
        pbn,
        lbns.into_iter().map(|lbn| SlotContent { lbn, slot: 0, name: FingerprintEntry::of(fingerprint) }).collect(),
    );
    content
}
