//! Proves the entries of the acknowledgement journal before they are applied: a device that failed, or a store that was set back to an
//! older copy, may lack the content that they name.
//!
//! 1. A store that lacks every trace of the last durable epoch is not the one that the last server left: none of its entries counts.
//! 2. The content that an entry names is read, after the flush of the opening (R8), and compared with the entry's fingerprint. For a slot,
//!    the carrier has to be authentic. Content that differs, or cannot be read, proves nothing.
//! 3. Content that is right may still be lost: a block that was discarded, and whose later write was lost, may read as that write once and
//!    as something else the next time (decision 0071, 8). So it is written again, and flushed, unless the tables show that it is durable.

use crate::ack_journal::{AckJournal, BlockInTables};
use crate::answers::Answers;
use crate::format::entry::{FingerprintEntry, Kind};
use crate::format::geometry::Geometry;
use crate::format::page::{PageId, Region, SECTORS};
use crate::interface::{Action, Class, Trace};
use crate::io::{Arrived, FlushFor, Io, IoFor, Stage};
use crate::pool::{Medium, Pool};
use crate::schedule::Task;
use crate::tables::{Access, Tables};
use crate::units::{Pbn, count, index};

/// Blocks whose reads are under way at once.
const BLOCKS_UNDER_WAY_MAX: u64 = 64;

/// Whether the store has a trace of the last durable epoch. `Err`: a page has to be loaded first.
pub(super) fn has_trace(pool: &mut Pool, journal: &mut AckJournal) -> Result<bool, PageId> {
    let traces = journal.traces();
    for trace in traces.into_iter().flatten() {
        let is_there = match trace {
            Trace::Log { sequence } => log_end(&pool.medium, journal) >= sequence,
            Trace::Map { sector, sum } => map_sum(&mut pool.io, &mut pool.tables, &pool.geometry, sector)? == Some(sum),
        };
        if is_there {
            // This trace identifies the store until an epoch of this server is durable.
            journal.identify_by(trace);
            return Ok(true);
        }
    }
    Ok(traces == [None; 2])
}

/// Replaces the trace of a store that was recognized by a sector of the map. If it has a log, the log identifies it from now on: later
/// units may change that sector.
pub(super) fn adopt_trace_of_log(io: &mut Io, tables: &Tables, medium: &Medium, journal: &mut AckJournal) {
    if matches!(journal.trace(), Some(Trace::Map { .. })) && tables.has_records() {
        let trace = Trace::Log { sequence: log_end(medium, journal) };
        journal.identify_by(trace);
        io.act(Action::Forget { epoch: medium.superblock.last_epoch, traces: [Some(trace), None] });
    }
}

/// The last sequence of the log as this opening found it.
fn log_end(medium: &Medium, journal: &AckJournal) -> u64 {
    journal.log_end().unwrap_or(medium.superblock.last_log_sequence)
}

/// The sum of a sector of the map. None if the sector does not exist or cannot be read.
fn map_sum(io: &mut Io, tables: &mut Tables, geometry: &Geometry, sector: u64) -> Result<Option<u32>, PageId> {
    let id = PageId { region: Region::Map, index: sector / count(SECTORS) };
    if id.index >= geometry.pages(Region::Map) {
        return Ok(None);
    }
    match tables.ensure(io, id) {
        Access::Loading => Err(id),
        Access::Unreadable => Ok(None),
        Access::Ready(resident) => Ok(Some(resident.page().content.sum(index(sector % count(SECTORS))))),
    }
}

/// Reads the blocks that the entries name. Returns whether all were read, and those that count are durable.
pub(super) fn read_proofs(pool: &mut Pool, journal: &mut AckJournal) -> bool {
    let contents = &mut journal.contents;
    while contents.blocks_under_way < BLOCKS_UNDER_WAY_MAX {
        let Some(&(first, blocks)) = contents.runs.front() else { break };
        let known = match (0..blocks).map(|i| look_up(pool, first + i)).collect() {
            Ok(known) => known,
            Err(page) => {
                pool.tables.wait(&mut pool.io, page, Task::Replay);
                return false;
            }
        };
        contents.begin_run(first, known);
        pool.io.read(IoFor::ReadForProof { first }, pool.geometry.block_at(first), index(blocks), true, Class::Data);
    }
    if contents.blocks_under_way > 0 || contents.is_flushing || pool.io.has_failed() {
        return false;
    }
    if contents.begin_flush() {
        pool.io.flush(FlushFor::PromisedContents);
        return false;
    }
    true
}

/// Looks up a block in the tables. `Err`: a page has to be loaded first.
fn look_up(pool: &mut Pool, pbn: Pbn) -> Result<BlockInTables, PageId> {
    let Pool { io, tables, geometry, medium, .. } = pool;
    let ((names, at), (counts, _)) = (geometry.fingerprint_of(pbn), geometry.refs_of(pbn));
    let entry = match tables.ensure(io, names) {
        Access::Loading => return Err(names),
        Access::Unreadable => FingerprintEntry::default(),
        Access::Ready(resident) => resident.page().content.fingerprint(at),
    };
    let is_counted = match tables.ensure(io, counts) {
        Access::Loading => return Err(counts),
        Access::Unreadable => false,
        Access::Ready(_) => tables.refs_now(pbn) > 0,
    };
    // If garbage is possible, a count may stand for links that were lost, and so was their content.
    Ok(BlockInTables { entry, is_linked: is_counted && tables.has_records() && !medium.superblock.garbage_possible })
}

/// Compares blocks that entries name when they have been read. Right ones are written again, unless they are known to be durable.
pub(crate) fn content_arrived(pool: &mut Pool, answers: &mut Answers, first: Pbn, arrived: Arrived) {
    let Arrived { buffer, digests, result } = arrived;
    if pool.io.stage() != Stage::Replaying {
        // The device has failed meanwhile.
        return;
    }
    let contents = &mut answers.ack_journal.contents;
    let known = contents.end_run(first);
    let blocks = count(known.len());
    if result.is_ok() {
        let read = buffer.freeze();
        let mut again = Vec::new();
        for (i, (known, digest)) in known.into_iter().zip(digests).enumerate() {
            let (pbn, block) = (first + count(i), read.block(i));
            if !contents.note_content(&pool.keys, pbn, block, digest) {
                continue;
            }
            if let (Kind::None, Some(authenticator)) = (known.entry.kind, pool.keys.authentic(pbn, block)) {
                contents.unnamed.insert(pbn, authenticator);
            }
            if !known.is_durable(&pool.keys, pbn, block, digest) {
                again.push((pbn, read.slice(i, 1)));
            }
        }
        contents.write_again(pool, again);
    } else if blocks > 1 {
        // At least one of them cannot be read: each is read by itself.
        contents.runs.extend((0..blocks).map(|i| (first + i, 1)));
    } else if contents.is_tried_again(first) {
        contents.runs.push_back((first, 1));
    }
}

/// Notes that this number of blocks has been written again.
pub(crate) fn content_written(io: &Io, answers: &mut Answers, blocks: u64) {
    if io.stage() == Stage::Replaying {
        answers.ack_journal.contents.are_written(blocks);
    }
}

/// Notes that they are flushed.
pub(crate) fn contents_flushed(answers: &mut Answers) {
    answers.ack_journal.contents.flush_ended();
}
