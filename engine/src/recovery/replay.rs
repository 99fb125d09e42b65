//! Replay of the acknowledgement journal: the entries that the last server left are applied in order, in the same way as writes, and
//! committed before the first request.
//!
//! 1. Entries are applied one after the other: of two entries for one LBN the later one counts.
//! 2. The epoch of an entry may be durable although its server could not record that. Then the LBN means the content already, and stays.
//! 3. An entry that names a block counts if its content is proved (`promised_contents.rs`). Otherwise the LBN stays as it is on the medium.
//! 4. The count of a block may be at its limit because the dead server's increments reached the medium and its links did not. Then the
//!    content is written again.
//! 5. A pack that an entry names, but no table, becomes a pending block of the epoch that replays the entry. Mode `ordered` makes no packs:
//!    it writes the content again.
//! 6. If an entry cannot be kept, the next flush reports it.

use super::promised_contents::{adopt_trace_of_log, has_trace, read_proofs};
use crate::answers::Answers;
use crate::buffer::Slice;
use crate::format::entry::{FingerprintEntry, Kind, MapEntry, SLOT_MAX};
use crate::format::geometry::Geometry;
use crate::format::page::PageId;
use crate::interface::{Action, Class, Legacy, Notice, Promised};
use crate::io::{Arrived, Io, IoFor, Stage};
use crate::pool::{Pool, in_slot};
use crate::requests::Requests;
use crate::schedule::Task;
use crate::scheme::Scheme;
use crate::space::{PendingBlock, Space};
use crate::tables::{Access, Tables};
use crate::units::{Lbn, Pbn};

/// Takes over the journal that the last server has left, before the first event.
pub(crate) fn take_journal(io: &Io, space: &mut Space, geometry: &Geometry, answers: &mut Answers, legacy: Legacy) {
    debug_assert!(io.stage() == Stage::Created, "promises are replayed before anything else");
    let Legacy { promises, traces } = legacy;
    space.promise(promises.iter().filter_map(|what| if let Promised::Link { pbn, .. } = what { Some(*pbn) } else { None }));
    answers.ack_journal.take_over(promises, traces, geometry);
}

/// Proves the entries, then applies them, as far as pages in memory allow.
pub(crate) fn go_on_replaying(pool: &mut Pool, scheme: &mut Scheme, answers: &mut Answers, requests: &mut Requests) {
    if pool.io.stage() != Stage::Replaying {
        return;
    }
    if let Some(good) = answers.take_replayed() {
        content_replayed(pool, answers, good);
    }
    match has_trace(pool, &mut answers.ack_journal) {
        Err(page) => return pool.tables.wait(&mut pool.io, page, Task::Replay),
        // This is done once: the replay changes the sector that is the trace.
        Ok(true) => {
            answers.ack_journal.trace_is_found();
            adopt_trace_of_log(&mut pool.io, &pool.tables, &pool.medium, &mut answers.ack_journal);
        }
        Ok(false) => refuse_promises(&mut pool.io, answers),
    }
    if !read_proofs(pool, &mut answers.ack_journal) {
        return;
    }
    while let (Stage::Replaying, Some(what)) = (pool.io.stage(), answers.ack_journal.to_replay.front().cloned()) {
        let (logical, data) = (pool.geometry.logical_blocks, pool.geometry.data_blocks);
        match what {
            Promised::Unmap { first, end } if first < end && end.0 <= logical => {
                pool.unmap(first, end).into_iter().for_each(|lbn| answers.ack_journal.overtake(&pool.settings, lbn));
            }
            Promised::Zero { lbn } if lbn.0 < logical => pool.set_point(lbn, MapEntry::Zero),
            Promised::Content { lbn, content } if lbn.0 < logical => {
                return replay_content(&mut pool.io, &mut pool.tables, answers, requests, lbn, content);
            }
            Promised::Link { lbn, pbn, slot, proof } if lbn.0 < logical && pbn.0 < data && slot <= SLOT_MAX => {
                if !replay_link(pool, scheme, answers, lbn, (pbn, slot), &proof) {
                    return;
                }
            }
            _ => answers.ack_journal.breaks_one(),
        }
        answers.ack_journal.to_replay.pop_front();
    }
}

/// Writes the content of a block again that takes no link any more, when it has been read.
pub(crate) fn copy_arrived(
    pool: &mut Pool,
    answers: &mut Answers,
    requests: &mut Requests,
    lbn: Lbn,
    (pbn, slot): (Pbn, u8),
    arrived: Arrived,
) {
    let Arrived { buffer, digests, result } = arrived;
    answers.end_replay();
    if result.is_err() && answers.ack_journal.contents.is_tried_again(pbn) {
        return pool.io.schedule.push(Task::Replay);
    }
    let Some(Promised::Link { proof, .. }) = answers.ack_journal.to_replay.front() else { return };
    let block = buffer.freeze().slice(0, 1);
    let is_right = match slot {
        0 => digests.first().is_some_and(|&digest| proof.proves(&pool.keys.fingerprinter, digest, block.block(0))),
        _ => pool.keys.authentic(pbn, block.block(0)).is_some(),
    };
    match in_slot(&block, slot).filter(|_| result.is_ok() && is_right) {
        Some(content) => replay_content(&mut pool.io, &mut pool.tables, answers, requests, lbn, content),
        None => {
            pool.io.schedule.push(Task::Replay);
            content_replayed(pool, answers, false);
        }
    }
}

/// Whether everything that was replayed is durable, or never will be. Then the volume has to serve.
#[must_use]
#[inline]
pub(crate) fn is_replayed(pool: &mut Pool, answers: &mut Answers) -> bool {
    if pool.io.stage() != Stage::Replaying {
        return false;
    }
    let journal = &mut answers.ack_journal;
    let is_checked = journal.is_checked();
    let done = is_checked && journal.to_replay.is_empty() && pool.tables.open.is_empty() && pool.tables.committing.is_none();
    if !(done || pool.io.has_failed()) {
        return false;
    }
    if let Some(writes) = journal.take_broken() {
        pool.io.notice(Notice::AcknowledgedLost { writes });
    }
    if pool.io.has_failed() {
        // Applied entries may not be durable: no answer may contradict the next opening (P7). The journal stays.
        pool.io.refuse_reads();
    } else {
        pool.io.act(Action::Replayed);
        if journal.is_set_back() {
            // The next server must not look for traces that this store lacks.
            pool.io.act(Action::Forget { epoch: pool.medium.superblock.last_epoch, traces: [None; 2] });
        }
    }
    pool.space.forget_promised();
    journal.forget_proofs();
    true
}

/// Drops all entries: the store is not the one that the last server left.
fn refuse_promises(io: &mut Io, answers: &mut Answers) {
    answers.ack_journal.refuse();
    io.notice(Notice::SetBack);
}

/// Links an LBN to the block that an entry names. False: it waits for something.
fn replay_link(
    pool: &mut Pool,
    scheme: &mut Scheme,
    answers: &mut Answers,
    lbn: Lbn,
    (pbn, slot): (Pbn, u8),
    proof: &FingerprintEntry,
) -> bool {
    let to = MapEntry::Block { pbn, slot };
    match pool.tables.lookup(&mut pool.io, lbn) {
        Ok(Some(now)) if now == to => return true,
        Ok(_) => {}
        Err(page) => {
            pool.tables.wait(&mut pool.io, page, Task::Replay);
            return false;
        }
    }
    if !answers.ack_journal.contents.has(pbn, slot, proof) {
        answers.ack_journal.breaks_one();
        return true;
    }
    let (page, _) = pool.geometry.refs_of(pbn);
    let takes_link = match pool.tables.ensure(&mut pool.io, page) {
        Access::Loading => Err(page),
        Access::Unreadable => Ok(false),
        Access::Ready(_) => {
            let has_room = pool.tables.refs_now(pbn) < pool.space.link_limit(&pool.tables);
            if has_room { is_carrier_known(pool, scheme, answers, pbn, slot) } else { Ok(false) }
        }
    };
    match takes_link {
        Err(page) => {
            pool.tables.wait(&mut pool.io, page, Task::Replay);
            false
        }
        Ok(false) => {
            read_for_copy(&mut pool.io, &pool.geometry, answers, lbn, pbn, slot);
            false
        }
        Ok(true) => {
            pool.space.change_refs(&mut pool.io, &mut pool.tables, pbn, 1);
            pool.tables.open.refs_pages.insert(page.index);
            pool.set_point(lbn, to);
            true
        }
    }
}

/// Whether a slot of a block can be linked to: its carrier is in the tables, or is a pack that becomes a pending block now. `Err`: a page
/// has to be loaded first.
fn is_carrier_known(pool: &mut Pool, scheme: &mut Scheme, answers: &mut Answers, pbn: Pbn, slot: u8) -> Result<bool, PageId> {
    let Some(authenticator) = answers.ack_journal.contents.unnamed_pack(pbn).filter(|_| slot > 0) else { return Ok(true) };
    if pool.space.pending.get(pbn).is_some_and(|pending| pending.waits) {
        return Ok(true);
    }
    let (page, at) = pool.geometry.fingerprint_of(pbn);
    let entry = match pool.tables.ensure(&mut pool.io, page) {
        Access::Loading => return Err(page),
        Access::Unreadable => return Ok(false),
        Access::Ready(resident) => resident.page().content.fingerprint(at),
    };
    if entry.kind == Kind::Carrier && entry.value == authenticator && !pool.tables.is_losing_its_name(pbn) {
        return Ok(true);
    }
    if !pool.tables.has_records() || pool.tables.refs_now(pbn) > 0 {
        return Ok(false);
    }
    pool.space.change_refs(&mut pool.io, &mut pool.tables, pbn, 1);
    pool.tables.open.new_blocks.push(pbn);
    scheme.takes_foreign_pack(pool, answers);
    let epoch = pool.tables.open.number.0;
    pool.space.pending.insert(pbn, PendingBlock { kind: Kind::Carrier, fingerprint: authenticator, epoch, content: None, waits: true });
    Ok(true)
}

/// Reads a block that takes no link any more, so that its content is written again.
fn read_for_copy(io: &mut Io, geometry: &Geometry, answers: &mut Answers, lbn: Lbn, pbn: Pbn, slot: u8) {
    if !answers.is_replaying() {
        answers.begin_replay();
        io.read(IoFor::ReadForReplay { pbn, slot, lbn }, geometry.block_at(pbn), 1, true, Class::Data);
    }
}

/// Begins to write acknowledged content. The next entry follows when the content has its place.
fn replay_content(io: &mut Io, tables: &mut Tables, answers: &mut Answers, requests: &mut Requests, lbn: Lbn, content: Slice) {
    if answers.is_replaying() {
        return;
    }
    match tables.lookup(io, lbn) {
        Ok(base) => {
            answers.begin_replay();
            requests.write_replayed(io, lbn, content, base);
        }
        Err(page) => tables.wait(io, page, Task::Replay),
    }
}

/// Goes on when replayed content has its place, or failed to get one.
fn content_replayed(pool: &mut Pool, answers: &mut Answers, good: bool) {
    if !good && !pool.io.has_failed() {
        // There was no block for a copy. But a recount may have made room for a link meanwhile.
        if takes_link_now(&mut pool.tables, &pool.space, &pool.geometry, answers) {
            return;
        }
        answers.ack_journal.breaks_one();
    }
    answers.ack_journal.to_replay.pop_front();
}

/// Whether the next entry names a block whose count was at its limit, but is no longer.
fn takes_link_now(tables: &mut Tables, space: &Space, geometry: &Geometry, answers: &Answers) -> bool {
    let Some(&Promised::Link { pbn, .. }) = answers.ack_journal.to_replay.front() else { return false };
    let (page, _) = geometry.refs_of(pbn);
    tables.pages.get(page).is_some() && tables.refs_now(pbn) < space.link_limit(tables)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ack_journal::AckJournal;
    use crate::buffer::BufferMut;

    /// Whatever the engine waited for arrives while content is being written, and the replay is called again.
    #[test]
    fn content_that_is_being_replayed_is_not_written_twice() {
        let mut parts = crate::test_kit::parts();
        parts.pool.io.enter(Stage::Replaying);
        let (mut scheme, mut answers, mut requests) = (Scheme::default(), Answers::new(AckJournal::new(false)), Requests::default());
        let (lbn, content) = (Lbn(1), BufferMut::zeroed(1).freeze().slice(0, 1));
        answers.ack_journal.to_replay = [Promised::Zero { lbn }, Promised::Content { lbn, content }].into();
        for _ in 0..2 {
            go_on_replaying(&mut parts.pool, &mut scheme, &mut answers, &mut requests);
            let digests = parts.pool.io.actions().iter().filter(|action| matches!(action, Action::Digest { .. })).count();
            assert_eq!((digests, answers.ack_journal.to_replay.len()), (1, 1));
        }
    }
}
