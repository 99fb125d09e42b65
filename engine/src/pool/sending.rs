//! Writes of new content, with neighbouring blocks in one command.

use super::Pool;
use crate::buffer::Slice;
use crate::contents::WriteRun;
use crate::format::Geometry;
use crate::interface::{Class, RequestId};
use crate::io::IoFor;
use crate::space::{PendingBlock, Space};
use crate::units::{Pbn, count};

/// The most blocks in one command.
const RUN_BLOCKS_MAX: u64 = 256;

impl Pool {
    /// Adds a new block of a request to the next command.
    pub fn add_to_run(&mut self, request: RequestId, pbn: Pbn, slice: Slice) {
        if let Some(run) = self.contents.run() {
            if self.geometry.are_neighbours(run.first + (run.blocks - 1), pbn) && run.request == request && run.blocks < RUN_BLOCKS_MAX {
                run.blocks += 1;
                let next = match run.data.last_mut() {
                    Some(last) => last.join(slice),
                    None => Some(slice),
                };
                run.data.extend(next);
                return;
            }
            self.send_run();
        }
        self.contents.begin_run(WriteRun { first: pbn, blocks: 1, data: vec![slice], request });
    }

    /// Sends the command with the new blocks gathered so far.
    pub fn send_run(&mut self) {
        if let Some(WriteRun { first, blocks, data, .. }) = self.contents.take_run() {
            self.space.writes(first, blocks);
            self.io.write(IoFor::Content { first, blocks }, self.geometry.block_at(first), data, Class::Data);
            self.contents.writes_begin(1);
        }
    }

    /// Writes content, in the order of its blocks, with neighbours in one write.
    pub fn send_contents(&mut self, contents: Vec<(Pbn, Slice)>) {
        let content = |_: &Space, first, blocks| IoFor::Content { first, blocks: count(blocks) };
        let writes = self.write_blocks(contents, Class::Data, content);
        self.contents.writes_begin(writes);
    }

    /// Writes blocks in the given order. A block that follows its neighbour is part of the same write. `what` makes the purpose of a write
    /// from its first block and its number of blocks. Returns the number of writes.
    pub fn write_blocks(&mut self, blocks: Vec<(Pbn, Slice)>, class: Class, what: impl Fn(&Space, Pbn, usize) -> IoFor) -> u64 {
        let runs = neighbours(&self.geometry, blocks);
        let writes = count(runs.len());
        for (first, run) in runs {
            let what = what(&self.space, first, run.len());
            self.space.writes(first, count(run.len()));
            self.io.write(what, self.geometry.block_at(first), run, class);
        }
        writes
    }

    /// Frees content that was not sent before a failure. No commit makes it durable any more, so no read needs it (A5). It lies in the
    /// memory of requests. If it were kept, further requests could wait for that memory forever, and a flush among them would never be
    /// answered.
    pub fn release_unsent_content(&mut self) {
        let run = self.contents.take_run().map_or(0..0, |run| run.first.0..run.first.0 + run.blocks).map(Pbn);
        for pbn in run.chain(self.contents.held.blocks()) {
            self.space.pending.get_mut(pbn).into_iter().for_each(PendingBlock::drop_content);
        }
    }
}

/// Groups blocks that follow their neighbours.
fn neighbours(geometry: &Geometry, blocks: Vec<(Pbn, Slice)>) -> Vec<(Pbn, Vec<Slice>)> {
    let mut runs: Vec<(Pbn, Vec<Slice>)> = Vec::new();
    for (pbn, content) in blocks {
        match runs.last_mut() {
            Some((first, run)) if geometry.are_neighbours(*first + (count(run.len()) - 1), pbn) => run.push(content),
            _ => runs.push((pbn, vec![content])),
        }
    }
    runs
}
