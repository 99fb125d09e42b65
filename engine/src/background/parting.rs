//! Parts the blocks of protected ranges from others: what lies there is written once more, each LBN to a block of its own.
//!
//! 1. A range is protected when it is in the superblock, durably; what is written there from then on stays apart by itself. A change of
//!    the ranges is an update of the superblock.
//! 2. What was written before may share its block, or have a fingerprint by which others will. It is moved, as a write of no bytes: the
//!    LBN keeps its content, whatever happens meanwhile.
//! 3. Ranges are advice: a block that cannot be read, or for which there is no room, stays where it is.
//! 4. A range that was found is in the superblock of a volume that was closed in order only if it is parted; what a crash leaves is looked
//!    at anew.

use crate::answers::Answers;
use crate::format::PageId;
use crate::format::ProtectedRange;
use crate::format::entry::{Kind, MapEntry};
use crate::format::geometry::Geometry;
use crate::format::superblock::PROTECTED_MAX;
use crate::io::{Io, Stage};
use crate::pool::{Medium, Pool};
use crate::requests::Requests;
use crate::schedule::Task;
use crate::units::Lbn;

/// The most blocks that are moved at a time.
const MOVES_AT_ONCE: usize = 8;
/// The most LBNs that are looked at in a turn.
const LBNS_A_TURN: u64 = 256;

/// The parting, and how far it is.
#[derive(Default)]
pub(crate) struct Parting {
    /// The ranges that are left, the next one last.
    left: Vec<ProtectedRange>,
    /// The LBNs whose blocks are being moved.
    moving: Vec<Lbn>,
    /// It waits for a page, or for a move to end.
    waits: bool,
    /// Ranges of before may not be parted.
    is_unsure: bool,
}

impl Parting {
    /// Returns one for a volume that is being opened. `was_closed`: the volume was closed in order.
    pub fn new(was_closed: bool) -> Self {
        Self { is_unsure: !was_closed, ..Self::default() }
    }

    /// Protects these ranges, and no others that were found before. Ranges beyond the room that the superblock has are left out.
    #[cold]
    pub fn protect(&mut self, io: &mut Io, medium: &mut Medium, geometry: &Geometry, ranges: Vec<ProtectedRange>) {
        if io.is_read_only() || io.stage() != Stage::Serving {
            return;
        }
        let blocks = geometry.logical_blocks;
        let is_within = |range: &ProtectedRange| range.first.0.checked_add(range.blocks.into()).is_some_and(|end| end <= blocks);
        let found = ranges.into_iter().map(|range| ProtectedRange { is_found: true, ..range }).filter(is_within);
        let before = medium.superblock.protected.clone();
        let owned = before.iter().copied().filter(|range| !range.is_found);
        let wanted: Vec<ProtectedRange> = owned.chain(found).take(PROTECTED_MAX).collect();
        let is_parted = |range: &&ProtectedRange| !self.is_unsure && before.contains(range);
        self.left.extend(wanted.iter().rev().filter(|range| !is_parted(range)));
        self.is_unsure = false;
        if wanted != before {
            medium.protect(wanted);
        }
        self.waits = false;
        io.schedule.ask_for_background();
    }

    /// Forgets the ranges that were found if one of them is not parted yet: the volume is being closed.
    pub fn closes(&self, medium: &mut Medium, answers: &Answers) {
        if !self.left.is_empty() || self.moving.iter().any(|&lbn| answers.is_moving(lbn)) {
            medium.superblock.protected.retain(|range| !range.is_found);
        }
    }

    /// Whether it has nothing to do, or waits.
    pub fn rests(&self, io: &Io) -> bool {
        self.waits || self.left.is_empty() || io.is_read_only()
    }

    /// Goes on with it, a little.
    #[cold]
    pub fn part_some(&mut self, pool: &mut Pool, requests: &mut Requests, answers: &mut Answers) {
        self.waits = false;
        self.moving.retain(|&lbn| answers.is_moving(lbn));
        for _ in 0..LBNS_A_TURN {
            let Some(&range) = self.left.last() else { return };
            if range.blocks == 0 {
                self.left.pop();
                continue;
            }
            if self.moving.len() >= MOVES_AT_ONCE {
                self.waits = true;
                return;
            }
            let lbn = range.first;
            if answers.is_moving(lbn) {
                // Ranges may overlap, and come twice. The move that is under way takes the policy of its end.
                self.done_below(lbn + 1);
                continue;
            }
            match next(pool, lbn) {
                Ok(Next::Skip { end }) => self.done_below(end),
                Ok(Next::Move) => {
                    requests.begin_move(&mut pool.io, answers, lbn);
                    self.moving.push(lbn);
                    self.done_below(lbn + 1);
                }
                Err(page) => {
                    self.waits = true;
                    return pool.tables.wait(&mut pool.io, page, Task::Part);
                }
            }
        }
        pool.io.schedule.ask_for_background();
    }

    /// Takes what lies before `end` out of the range that is being looked at.
    fn done_below(&mut self, end: Lbn) {
        let Some(range) = self.left.last_mut() else { return };
        let done = u32::try_from(end - range.first).unwrap_or(u32::MAX).min(range.blocks);
        (range.first, range.blocks) = (range.first + u64::from(done), range.blocks - done);
    }
}

/// The next step for an LBN.
enum Next {
    /// Nothing, with all LBNs before `end`.
    Skip {
        end: Lbn,
    },
    Move,
}

/// Whether the block of an LBN is to be moved. `Err`: this page has to be read first.
fn next(pool: &mut Pool, lbn: Lbn) -> Result<Next, PageId> {
    let skip = Ok(Next::Skip { end: lbn + 1 });
    if pool.tables.overlay(lbn).is_none() {
        let (end, is_blank) = pool.tables.map_page(&mut pool.io, lbn);
        if is_blank {
            return Ok(Next::Skip { end });
        }
    }
    let Some(MapEntry::Block { pbn, slot }) = pool.tables.lookup(&mut pool.io, lbn)? else { return skip };
    if let Some(pending) = pool.space.pending.get(pbn) {
        // Nothing is linked to a pending block without a fingerprint.
        return if pending.kind == Kind::Checksum { skip } else { Ok(Next::Move) };
    }
    let entry = pool.settled_entry(pbn)?;
    let is_apart = slot == 0 && entry.kind == Kind::Checksum && entry.short().is_none() && !entry.is_suspect();
    if is_apart { skip } else { Ok(Next::Move) }
}
