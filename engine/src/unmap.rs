//! Requests that take content away: discards and write-zeroes.

use crate::buffer::BufferMut;
use crate::engine::Engine;
use crate::fingerprint::Digest;
use crate::interface::{Promised, Request};
use crate::units::{BLOCK_BYTES, Lbn, index};

impl Engine {
    /// A discard takes whole blocks; what it touches of others stays.
    pub(crate) fn begin_discard(&mut self, request: &Request) {
        self.store.io.ledger.client_discards += 1;
        self.begin_request(request);
        self.unmap_whole_blocks(request);
        self.finish_part(request.id, None);
    }

    /// Zeroes are exact: whole blocks are unmapped, the parts of blocks at both ends are written.
    pub(crate) fn begin_write_zeroes(&mut self, request: &Request) {
        self.store.io.ledger.client_discards += 1;
        let end_byte = request.offset.0 + request.length.0;
        self.begin_request(request);
        self.unmap_whole_blocks(request);
        let mut edge = |lbn: u64| {
            let at = lbn * BLOCK_BYTES;
            let covers = index(request.offset.0.saturating_sub(at))..index((end_byte - at).min(BLOCK_BYTES));
            self.write_block(request.id, Lbn(lbn), BufferMut::zeroed(1).freeze().slice(0, 1), Digest::Partial, covers);
        };
        let head = request.offset.0 / BLOCK_BYTES;
        let tail = end_byte / BLOCK_BYTES;
        if request.length.0 > 0 && request.offset.0 % BLOCK_BYTES != 0 {
            edge(head);
        }
        if end_byte % BLOCK_BYTES != 0 && (tail != head || request.offset.0 % BLOCK_BYTES == 0) {
            edge(tail);
        }
        self.finish_part(request.id, None);
    }

    fn unmap_whole_blocks(&mut self, request: &Request) {
        let first = Lbn(request.offset.0.div_ceil(BLOCK_BYTES));
        let end = Lbn((request.offset.0 + request.length.0) / BLOCK_BYTES);
        if first < end {
            self.promise(request.id, self.store.tables.open.number, Promised::Unmap { first, end });
            self.unmap(first, end);
        }
    }
}
