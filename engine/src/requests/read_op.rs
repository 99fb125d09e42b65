//! A read in progress.

use crate::buffer::Slice;
use crate::fingerprint::Digest;
use crate::interface::Request;
use crate::units::{BLOCK_BYTES, Lbn, Pbn, count};

#[derive(Clone)]
pub(super) enum Piece {
    Zeroes,
    Here(Slice),
    Run(FromRun),
}

/// Block `at` of a run that comes from the device, or what lies in a slot of it.
#[derive(Clone, Copy)]
pub(super) struct FromRun {
    pub run: usize,
    pub at: usize,
    pub slot: u8,
}

pub(super) struct RunRead {
    pub first: Pbn,
    pub blocks: usize,
    /// Whether some LBN means a whole block of it, which is verified by its digest; slots are by their carrier's authenticator.
    pub has_whole: bool,
    pub arrived: Option<(Slice, Vec<Digest>)>,
}

/// A read in progress.
pub(crate) struct ReadOp {
    pub request: Request,
    /// One for each block so far: a block is pinned, or its content taken, as soon as its meaning is known, so that a read that needs many
    /// pages gets on with each of them, however few fit into memory.
    pub pieces: Vec<Piece>,
    pub runs: Vec<RunRead>,
    pub runs_left: usize,
    pub sent: bool,
    /// Pieces up to this one were verified, where they came from the device.
    pub verified: usize,
    pub bad: bool,
}

impl ReadOp {
    /// The LBN of a piece.
    pub fn lbn(&self, piece: usize) -> Lbn {
        Lbn(self.request.offset.0 / BLOCK_BYTES + count(piece))
    }

    /// What comes from the device: the number of each piece, and where it is.
    pub fn device_pieces(&self) -> impl Iterator<Item = (usize, FromRun)> + '_ {
        self.pieces.iter().enumerate().filter_map(|(i, piece)| if let Piece::Run(from) = piece { Some((i, *from)) } else { None })
    }

    /// Sees to it that a block comes from the device. Whether no piece of the request has asked for it just before.
    pub fn ask(&mut self, pbn: Pbn, slot: u8) -> bool {
        let last = self.runs.len().wrapping_sub(1);
        if let Some(run) = self.runs.last_mut() {
            let at = run.blocks - 1;
            if slot > 0 && run.first + count(at) == pbn {
                self.pieces.push(Piece::Run(FromRun { run: last, at, slot }));
                return false;
            }
            if run.first + count(run.blocks) == pbn && run.blocks < RUN_BLOCKS_MAX {
                run.blocks += 1;
                run.has_whole |= slot == 0;
                self.pieces.push(Piece::Run(FromRun { run: last, at: at + 1, slot }));
                return true;
            }
        }
        self.runs.push(RunRead { first: pbn, blocks: 1, has_whole: slot == 0, arrived: None });
        self.pieces.push(Piece::Run(FromRun { run: self.runs.len() - 1, at: 0, slot }));
        true
    }
}

/// The most blocks in one command.
const RUN_BLOCKS_MAX: usize = 256;
