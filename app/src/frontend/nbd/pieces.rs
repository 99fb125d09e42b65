//! Reads and writes longer than the target takes at once: they are served in pieces, so that the memory of one request stays within the
//! budget.
//!
//! 1. A piece ends where a block does, or with its request: no piece makes the target merge a block that the request covers whole.
//! 2. A write is answered once, when all its pieces are done. It fails where one of them does, and the data of the others stays.
//! 3. A read's pieces are sent in order, and each is asked for when the one before is queued. In structured replies other answers may come
//!    between them; a simple reply is contiguous, so that it begins when every request before it has been answered.

use super::connection::{End, Reader};
use super::outbox::Outbox;
use super::protocol::RequestHead;
use super::transmission::{Piece, Ticket};
use crate::target::{Incoming, together};
use onefold_engine::interface::{Failure, Op, Reply};
use onefold_engine::units::{BLOCK_BYTES, index};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

/// Returns the pieces of a request of `length` bytes at `offset`, where the target takes up to `piece_max` bytes (whole blocks) at once.
fn pieces(offset: u64, length: u32, piece_max: u32) -> Vec<Piece> {
    let end = offset + u64::from(length);
    let mut pieces = Vec::new();
    let mut at = offset;
    while at < end {
        let next = (at + u64::from(piece_max)) / BLOCK_BYTES * BLOCK_BYTES;
        let to = next.min(end);
        let length = u32::try_from(to - at).expect("a piece is no longer than its request");
        pieces.push(Piece { offset: at, length, is_first: at == offset, is_last: to == end });
        at = to;
    }
    pieces
}

/// A write that is under way in pieces.
struct Gathered {
    ticket: Ticket,
    outbox: Arc<Outbox>,
    state: Mutex<Left>,
}

struct Left {
    pieces: usize,
    failed: Option<Failure>,
}

impl Gathered {
    /// Notes that a piece of this cost is done; with the last one the client gets its answer.
    fn done(&self, cost: u64, reply: Reply) {
        let mut left = self.state.lock().expect("no holder panics");
        left.pieces -= 1;
        if let Reply::Failed(failure) = reply {
            left.failed.get_or_insert(failure);
        }
        if left.pieces > 0 {
            self.outbox.settle(cost);
        } else {
            self.outbox.answer(&self.ticket, cost, left.failed.take().map_or(Reply::Done, Reply::Failed));
        }
    }
}

impl Reader {
    /// Takes a write whose payload is longer than a piece.
    pub(super) fn write_in_pieces(&mut self, head: &RequestHead, fua: bool) -> Result<(), End> {
        let pieces = pieces(head.offset, head.length, self.connection.export.piece_max);
        let gathered = Arc::new(Gathered {
            ticket: Ticket::new(head, self.connection.agreement),
            outbox: Arc::clone(&self.connection.outbox),
            state: Mutex::new(Left { pieces: pieces.len(), failed: None }),
        });
        for Piece { offset, length, .. } in pieces {
            let cost = Ticket::cost(length);
            self.make_room(cost);
            let mut buffer = match self.buffer(offset, length) {
                Ok(buffer) => buffer,
                Err(failure) => {
                    // The pieces before this one are never all, so that the refusal is the only answer.
                    let end = head.offset + u64::from(head.length);
                    self.refuse_later(head, failure.into(), index(end - offset));
                    return Ok(());
                }
            };
            self.payload(offset, length, &mut buffer)?;
            let gathered = Arc::clone(&gathered);
            let done = Box::new(move |reply| gathered.done(cost, reply));
            self.admit(cost, Incoming { op: Op::Write, offset, length: length.into(), buffer: Some(buffer), fua, done });
        }
        Ok(())
    }

    /// Serves a read longer than a piece.
    pub(super) fn read_in_pieces(&mut self, head: &RequestHead) -> Result<(), End> {
        self.submit();
        let (outbox, target) = (Arc::clone(&self.connection.outbox), Arc::clone(&self.connection.target));
        let agreement = self.connection.agreement;
        let structured = agreement.structured;
        if !structured {
            outbox.wait_until_answered();
        }
        for piece in pieces(head.offset, head.length, self.connection.export.piece_max) {
            let cost = Ticket::cost(piece.length);
            outbox.wait_for_room(cost);
            outbox.take(1, cost);
            let (tell, hear) = channel();
            let done = Box::new(move |reply| drop(tell.send(reply)));
            let Piece { offset, length, .. } = piece;
            let asked = Incoming { op: Op::Read, offset, length: length.into(), buffer: None, fua: false, done };
            together(|| target.submit(&mut vec![asked]));
            let reply = hear.recv().unwrap_or(Reply::Failed(Failure::Io));
            if !outbox.answer(&Ticket::of_piece(head, piece, agreement), cost, reply) {
                // A simple reply that has begun cannot report an error.
                return if structured || piece.is_first { Ok(()) } else { Err(End::BrokenReply) };
            }
        }
        self.look_for_room();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_the_request_and_end_with_blocks() {
        for (offset, length, piece_max) in
            [(0, 1 << 20, 65536), (512, 200 << 10, 65536), (3584, 12288, 4096), (8192 + 1024, 32 << 20, 1 << 16)]
        {
            let pieces = pieces(offset, length, piece_max);
            let mut at = offset;
            for piece in &pieces {
                assert_eq!((piece.offset, piece.is_first), (at, at == offset));
                at += u64::from(piece.length);
                assert!(piece.length > 0 && piece.offset % BLOCK_BYTES + u64::from(piece.length) <= u64::from(piece_max));
                assert!(piece.is_last || at % BLOCK_BYTES == 0);
                assert_eq!(piece.is_last, at == offset + u64::from(length));
            }
            assert_eq!(at, offset + u64::from(length));
        }
    }
}
