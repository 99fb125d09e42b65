//! A read that is under way.

use crate::buffer::Slice;
use crate::fingerprint::Digest;
use crate::format::Geometry;
use crate::interface::Request;
use crate::units::{BLOCK_BYTES, Lbn, Pbn, count, index};
use std::ops::Range;

/// The place of the content of one block of a read.
#[derive(Clone)]
pub(super) enum Piece {
    Zeroes,
    /// In memory.
    Here(Slice),
    /// On the device.
    Run(FromRun),
}

/// Block `at` of a run that is read from the device, or a slot of that block.
#[derive(Clone, Copy)]
pub(super) struct FromRun {
    pub run: usize,
    pub at: usize,
    pub slot: u8,
}

/// Consecutive blocks that one command reads.
pub(super) struct RunRead {
    pub first: Pbn,
    pub blocks: usize,
    /// Whether the read needs a whole block of the run. A whole block is verified by its digest, a slot by its carrier's authenticator.
    pub has_whole: bool,
    /// Blocks that were read along. Nobody verifies what the device says of them, so it is used for nothing.
    pub along: Vec<Pbn>,
    pub arrived: Option<(Slice, Vec<Digest>)>,
}

impl RunRead {
    /// Its content and digests. All runs of a read have arrived when its pieces are verified or answered.
    pub fn arrived(&self) -> &(Slice, Vec<Digest>) {
        self.arrived.as_ref().expect("every run has arrived")
    }
}

/// A read that is under way.
pub(crate) struct ReadOp {
    pub request: Request,
    /// One for each block that was looked up so far. A block is pinned, or its content taken, as soon as it is known. So a read that needs
    /// many map pages makes progress with each, even if few of them fit into memory.
    pub pieces: Vec<Piece>,
    pub runs: Vec<RunRead>,
    /// Blocks that the cache had, and that continue the last run. They are read along if the run goes on behind them.
    bridge: u64,
    pub runs_left: usize,
    pub sent: bool,
    /// The pieces before this one were verified, where they came from the device.
    pub verified: usize,
    pub bad: bool,
    /// The damage that it has come upon last. It fails when that is kept.
    pub find: u64,
    /// Each block is read by itself, and it begins again with that: a run could not be read.
    pub is_block_by_block: bool,
    pub begins_again: bool,
}

impl ReadOp {
    pub fn new(request: Request) -> Self {
        Self {
            request,
            pieces: Vec::new(),
            runs: Vec::new(),
            bridge: 0,
            runs_left: 0,
            sent: false,
            verified: 0,
            bad: false,
            find: 0,
            is_block_by_block: false,
            begins_again: false,
        }
    }

    /// Forgets all that was looked up and read. Returns its runs, whose blocks are pinned.
    pub fn begin_again(&mut self) -> Vec<RunRead> {
        (self.sent, self.verified, self.bad, self.bridge) = (false, 0, false, 0);
        self.pieces.clear();
        std::mem::take(&mut self.runs)
    }

    /// Notes that its runs are being read; of one that fails none is.
    pub fn is_sent(&mut self) {
        self.sent = true;
        self.runs_left = if self.bad { self.runs_left } else { self.runs.len() };
    }

    /// Takes the content and the digests of a run.
    pub fn run_arrived(&mut self, run: usize, arrived: (Slice, Vec<Digest>)) {
        self.runs[run].arrived = Some(arrived);
        self.runs_left -= 1;
    }

    /// Begins again, block by block, when all runs are there: which block cannot be read shows when each is read by itself.
    pub fn begin_block_by_block(&mut self) {
        (self.is_block_by_block, self.begins_again) = (true, true);
    }

    /// Whether it has to begin again. It is asked once.
    pub fn takes_new_beginning(&mut self) -> bool {
        std::mem::take(&mut self.begins_again)
    }

    /// Keeps the content of a piece, which was verified.
    pub fn is_here(&mut self, piece: usize, content: Slice) {
        self.pieces[piece] = Piece::Here(content);
    }

    /// Notes that the pieces before this one were verified.
    pub fn is_verified_upto(&mut self, piece: usize) {
        self.verified = piece;
    }

    /// Notes that it will fail.
    pub fn fails(&mut self) {
        self.bad = true;
    }

    /// Notes that it has come upon damage.
    pub fn is_damaged(&mut self, find: u64) {
        (self.bad, self.find) = (true, find);
    }

    /// The LBN of a piece.
    pub fn lbn(&self, piece: usize) -> Lbn {
        Lbn(self.request.offset.0 / BLOCK_BYTES + count(piece))
    }

    /// The pieces that come from the device: the number of each, and where it is.
    pub fn device_pieces(&self) -> impl Iterator<Item = (usize, FromRun)> + '_ {
        self.pieces.iter().enumerate().filter_map(|(i, piece)| if let Piece::Run(from) = piece { Some((i, *from)) } else { None })
    }

    /// Notes that the cache had this block.
    pub fn skip(&mut self, geometry: &Geometry, pbn: Pbn) {
        let continues = |run: &RunRead| geometry.are_neighbours(run.first + (count(run.blocks) - 1 + self.bridge), pbn);
        self.bridge += u64::from(self.runs.last().is_some_and(continues));
    }

    /// Takes the blocks between the last run and this block into the run, if they are few, and the cache had all of them. Returns these
    /// blocks, which the device reads.
    pub fn bridge_to(&mut self, geometry: &Geometry, pbn: Pbn) -> Range<Pbn> {
        let bridge = std::mem::take(&mut self.bridge);
        let Some(run) = self.runs.last_mut().filter(|_| (1..=BRIDGE_BLOCKS_MAX).contains(&bridge) && !self.is_block_by_block) else {
            return pbn..pbn;
        };
        let end = run.first + count(run.blocks);
        if !geometry.are_neighbours(end + (bridge - 1), pbn) || run.blocks + index(bridge) >= RUN_BLOCKS_MAX {
            return pbn..pbn;
        }
        run.blocks += index(bridge);
        run.along.extend((0..bridge).map(|i| end + i));
        end..pbn
    }

    /// Adds a block to those that are read from the device. Returns whether it is new: the piece before may have asked for the same block.
    pub fn ask(&mut self, geometry: &Geometry, pbn: Pbn, slot: u8) -> bool {
        let last = self.runs.len().wrapping_sub(1);
        if let Some(run) = self.runs.last_mut() {
            let at = run.blocks - 1;
            if slot > 0 && run.first + count(at) == pbn {
                self.pieces.push(Piece::Run(FromRun { run: last, at, slot }));
                return false;
            }
            if geometry.are_neighbours(run.first + count(at), pbn) && run.blocks < RUN_BLOCKS_MAX && !self.is_block_by_block {
                run.blocks += 1;
                run.has_whole |= slot == 0;
                self.pieces.push(Piece::Run(FromRun { run: last, at: at + 1, slot }));
                return true;
            }
        }
        self.runs.push(RunRead { first: pbn, blocks: 1, has_whole: slot == 0, along: Vec::new(), arrived: None });
        self.pieces.push(Piece::Run(FromRun { run: self.runs.len() - 1, at: 0, slot }));
        true
    }
}

/// The most blocks in one command.
const RUN_BLOCKS_MAX: usize = 256;
/// The most blocks between two others that are read along although the cache has them: slow flash reads them in the time that half of
/// another command takes.
const BRIDGE_BLOCKS_MAX: u64 = 4;
