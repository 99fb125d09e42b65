//! Requests that remove content: discards and write-zeroes.

use super::Requests;
use super::write::Block;
use crate::answers::Answers;
use crate::buffer::BufferMut;
use crate::fingerprint::Digest;
use crate::interface::{Promised, Request};
use crate::ledger::ClientWrites;
use crate::policy::Policy;
use crate::pool::{Parts, Pool};
use crate::scheme::Scheme;
use crate::units::{BLOCK_BYTES, Lbn, index};

impl Requests {
    /// Unmaps whole blocks. Blocks that the discard covers in part stay as they are.
    pub fn begin_discard(&mut self, pool: &mut Pool, answers: &mut Answers, request: &Request) {
        pool.io.ledger.client_discarded();
        answers.begin(&mut pool.io, &pool.settings, request, ClientWrites::default());
        pool.space.trimmed(pool.io.now(), request.length.0 / BLOCK_BYTES);
        self.unmap_whole_blocks(pool, answers, request);
        answers.finish_part(pool, request.id, None);
    }

    /// Unmaps whole blocks, and writes zeroes to the parts of blocks at both ends: the result is exact.
    pub fn begin_write_zeroes(&mut self, parts: &mut Parts, scheme: &mut Scheme, answers: &mut Answers, request: &Request) {
        parts.pool.io.ledger.client_discarded();
        let end_byte = request.offset.0 + request.length.0;
        answers.begin(&mut parts.pool.io, &parts.pool.settings, request, ClientWrites::default());
        self.unmap_whole_blocks(&mut parts.pool, answers, request);
        let mut edge = |lbn: u64| {
            let at = lbn * BLOCK_BYTES;
            let covers = index(request.offset.0.saturating_sub(at))..index((end_byte - at).min(BLOCK_BYTES));
            let sent = BufferMut::zeroed(1).freeze().slice(0, 1);
            let digest = Digest::Partial;
            self.write_block(
                parts,
                scheme,
                answers,
                Block { request: request.id, lbn: Lbn(lbn), sent, digest, covers, policy: Policy::DEFAULT, is_lone: false },
            );
        };
        let head = request.offset.0 / BLOCK_BYTES;
        let tail = end_byte / BLOCK_BYTES;
        if request.length.0 > 0 && request.offset.0 % BLOCK_BYTES != 0 {
            edge(head);
        }
        if end_byte % BLOCK_BYTES != 0 && (tail != head || request.offset.0 % BLOCK_BYTES == 0) {
            edge(tail);
        }
        answers.finish_part(&mut parts.pool, request.id, None);
    }

    fn unmap_whole_blocks(&mut self, pool: &mut Pool, answers: &mut Answers, request: &Request) {
        let first = Lbn(request.offset.0.div_ceil(BLOCK_BYTES));
        let end = Lbn((request.offset.0 + request.length.0) / BLOCK_BYTES);
        if first < end {
            let epoch = pool.tables.open.number;
            answers.promise(pool, request.id, epoch, Promised::Unmap { first, end });
            pool.unmap(first, end).into_iter().for_each(|lbn| answers.ack_journal.overtake(&pool.settings, lbn));
        }
    }
}
