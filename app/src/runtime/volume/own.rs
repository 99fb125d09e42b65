//! Requests of the runtime itself.

use super::{Volume, Waiting};
use crate::hints::Hints;
use crate::names::Named;
use crate::runtime::layouts::Layouts;
use onefold_engine::interface::{Op, Reply, Request, RequestId, Segment};
use onefold_engine::policy::Policies;
use onefold_engine::units::{BLOCK_BYTES, BLOCK_SIZE, Bytes, Lbn, index};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

impl Volume {
    /// Tells its owner whose the content is that was found damaged.
    pub fn tell_names(&self, names: &[Named]) {
        self.notices.tell_names(names);
    }

    /// Returns what is known of its requests beforehand.
    pub(in crate::runtime) fn known(&self) -> &Arc<Hints> {
        &self.hints
    }

    /// The layouts of the file systems on it.
    pub(in crate::runtime) fn layouts(&self) -> &Arc<Layouts> {
        &self.layouts
    }

    /// The blocks that clients see.
    pub(in crate::runtime) fn blocks(&self) -> u64 {
        self.info.bytes / BLOCK_BYTES
    }

    /// Reads a block as a client would, but for the counts of clients' requests; none if it cannot be read, or does not come in time.
    pub(in crate::runtime) fn read_block(&self, lbn: Lbn, patience: Duration) -> Option<Box<[u8; BLOCK_SIZE]>> {
        let (tell, hear) = channel();
        let (op, done) = (Op::Read, Box::new(move |reply| drop(tell.send(reply))));
        let request = Request {
            id: RequestId(u64::MAX),
            op,
            offset: Bytes(lbn.0 * BLOCK_BYTES),
            length: Bytes(BLOCK_BYTES),
            payload: None,
            fua: false,
            policies: Policies::default(),
        };
        self.feed(&mut Vec::new(), vec![(request, Waiting { done, op, since: None })]);
        let Ok(Reply::Data(segments)) = hear.recv_timeout(patience) else { return None };
        let mut block = Box::new([0; BLOCK_SIZE]);
        let mut at = 0;
        for segment in segments {
            match segment {
                Segment::Zeroes { bytes } => at += index(bytes),
                Segment::Data { slice, start, bytes } => {
                    block.get_mut(at..at + bytes)?.copy_from_slice(&slice.bytes()[start..start + bytes]);
                    at += bytes;
                }
            }
        }
        Some(block)
    }
}
