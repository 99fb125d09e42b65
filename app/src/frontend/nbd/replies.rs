//! Replies that are being sent: many of them in one system call, their data never copied.

use super::socket::{Socket, Wait};
use onefold_engine::buffer::Slice;
use onefold_engine::interface::Segment;
use onefold_engine::units::index;
use std::io::{self, IoSlice};

/// The largest number of memory ranges in one system call: 64 replies of one data chunk each, and a table of 2 KiB.
const STRETCHES_MAX: usize = 128;
/// The memory that zeroes are sent from.
static ZEROES: [u8; 64 << 10] = [0; 64 << 10];

/// Replies in order, and how far they have been sent.
#[derive(Debug, Default)]
pub struct Replies {
    /// All heads, one after the other, so that replies without data go out as one range.
    heads: Vec<u8>,
    pieces: Vec<Piece>,
    bytes: usize,
    /// The cost of the requests answered here against their connection's limit, in bytes.
    cost: u64,
    /// The first piece not yet wholly sent, how many of its bytes were, and how many bytes of `heads` earlier pieces took.
    piece: usize,
    piece_sent: usize,
    heads_sent: usize,
}

#[derive(Debug)]
enum Piece {
    Heads { bytes: usize },
    Zeroes { bytes: u64 },
    Data { slice: Slice, start: usize, bytes: usize },
}

impl Replies {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns the number of their bytes, sent or not.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the cost that is to be released when these have left.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Adds to the cost that is to be released.
    pub fn charge(&mut self, cost: u64) {
        self.cost += cost;
    }

    /// Appends the fixed part of a reply.
    pub fn head(&mut self, bytes: &[u8]) {
        self.heads.extend_from_slice(bytes);
        self.bytes += bytes.len();
        if let Some(Piece::Heads { bytes: before }) = self.pieces.last_mut() {
            *before += bytes.len();
        } else {
            self.pieces.push(Piece::Heads { bytes: bytes.len() });
        }
    }

    /// Appends data.
    pub fn segment(&mut self, segment: Segment) {
        let (piece, bytes) = match segment {
            Segment::Zeroes { bytes } => (Piece::Zeroes { bytes }, index(bytes)),
            Segment::Data { slice, start, bytes } => (Piece::Data { slice, start, bytes }, bytes),
        };
        self.pieces.push(piece);
        self.bytes += bytes;
    }

    /// Forgets everything and releases the data; keeps the tables' memory.
    pub fn clear(&mut self) {
        self.heads.clear();
        self.pieces.clear();
        (self.bytes, self.cost, self.piece, self.piece_sent, self.heads_sent) = (0, 0, 0, 0, 0);
    }

    /// Sends everything that has not been sent.
    ///
    /// # Errors
    /// `WouldBlock` when the client does not take it (with [`Wait::Yes`], for the socket's time limit); sending may go on after it.
    pub fn send(&mut self, socket: &Socket, wait: Wait) -> io::Result<()> {
        while self.piece < self.pieces.len() {
            let mut stretches = [IoSlice::new(&[]); STRETCHES_MAX];
            let many = self.stretches(&mut stretches);
            let sent = socket.send(&stretches[..many], wait)?;
            self.advance(sent);
        }
        Ok(())
    }

    /// Fills `out` with the next ranges; returns the number of entries that it filled.
    fn stretches<'a>(&'a self, out: &mut [IoSlice<'a>]) -> usize {
        let (mut sent, mut heads) = (self.piece_sent, self.heads_sent);
        let mut many = 0;
        let mut pieces = self.pieces[self.piece..].iter();
        while let (true, Some(piece)) = (many < out.len(), pieces.next()) {
            match piece {
                Piece::Heads { bytes } => {
                    out[many] = IoSlice::new(&self.heads[heads + sent..heads + bytes]);
                    heads += bytes;
                }
                Piece::Data { slice, start, bytes } => out[many] = IoSlice::new(&slice.bytes()[start + sent..start + bytes]),
                Piece::Zeroes { bytes } => {
                    let left = bytes - u64::try_from(sent).expect("a count in memory fits 64 bits");
                    let now = usize::try_from(left).unwrap_or(usize::MAX).min(ZEROES.len());
                    out[many] = IoSlice::new(&ZEROES[..now]);
                    if u64::try_from(now).is_ok_and(|now| now < left) {
                        return many + 1; // the rest in the next call
                    }
                }
            }
            sent = 0;
            many += 1;
        }
        many
    }

    fn advance(&mut self, mut sent: usize) {
        while sent > 0 {
            let whole = match &self.pieces[self.piece] {
                Piece::Heads { bytes } | Piece::Data { bytes, .. } => *bytes,
                Piece::Zeroes { bytes } => usize::try_from(*bytes).expect("a read's length fits the machine's word"),
            };
            let left = whole - self.piece_sent;
            if sent < left {
                self.piece_sent += sent;
                return;
            }
            sent -= left;
            if let Piece::Heads { bytes } = self.pieces[self.piece] {
                self.heads_sent += bytes;
            }
            self.piece += 1;
            self.piece_sent = 0;
        }
    }
}
