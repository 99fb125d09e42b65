//! The loads of a client whose cost is counted.

use fastrand::Rng;

/// A request of the client. Contents are represented by names; 0 is never one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientRequest {
    /// A write of whole blocks from `first` on.
    Write { first: u64, contents: Vec<u64> },
    /// A flush. It is sent when everything before it is acknowledged; nothing follows before its own acknowledgement.
    Flush,
}

/// The end of random writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritesEnd {
    Writes(u64),
    /// The moment when every block has been written once more than this number of times.
    Overwritten(u32),
}

/// The load of a client.
#[derive(Clone, Debug)]
pub enum Load {
    Random(Random),
    Sequential(Sequential),
}

impl Iterator for Load {
    type Item = ClientRequest;

    /// Returns the next request, until the load is over.
    fn next(&mut self) -> Option<ClientRequest> {
        match self {
            Self::Random(load) => load.next(),
            Self::Sequential(load) => load.next(),
        }
    }
}

impl Load {
    /// Returns the number of blocks written so far whose content some logical block held at that moment.
    #[must_use]
    pub fn duplicates(&self) -> u64 {
        match self {
            Self::Random(load) => load.duplicates,
            Self::Sequential(_) => 0,
        }
    }
}

/// Writes single blocks at random places of a range, with a flush after every few.
#[derive(Clone, Debug)]
pub struct Random {
    rng: Rng,
    end: WritesEnd,
    flush_every: u64,
    duplicates_percent: u8,
    /// The content of each block of the range; 0 before its first write.
    live: Vec<u64>,
    times: Vec<u32>,
    /// The blocks of the range that were written.
    known: Vec<usize>,
    /// The number of blocks that were not written often enough yet.
    behind: usize,
    written: u64,
    unflushed: u64,
    unique: u64,
    duplicates: u64,
}

impl Random {
    /// Writes to the first `blocks` of a volume; `duplicates_percent` of the writes copy the content of a random block written before.
    #[must_use]
    pub fn new(seed: u64, blocks: usize, flush_every: u64, duplicates_percent: u8, end: WritesEnd) -> Self {
        let (live, times) = (vec![0; blocks], vec![0; blocks]);
        Self {
            rng: Rng::with_seed(seed),
            end,
            flush_every,
            duplicates_percent,
            live,
            times,
            known: Vec::new(),
            behind: blocks,
            written: 0,
            unflushed: 0,
            unique: 0,
            duplicates: 0,
        }
    }

    fn over(&self) -> bool {
        match self.end {
            WritesEnd::Writes(writes) => self.written >= writes,
            WritesEnd::Overwritten(_) => self.behind == 0,
        }
    }

    fn next(&mut self) -> Option<ClientRequest> {
        let over = self.over();
        if self.unflushed > 0 && (over || self.unflushed == self.flush_every) {
            self.unflushed = 0;
            return Some(ClientRequest::Flush);
        }
        if over {
            return None;
        }
        let at = self.rng.usize(0..self.live.len());
        let copies = self.rng.u8(0..100) < self.duplicates_percent && !self.known.is_empty();
        let content = if copies {
            self.duplicates += 1;
            self.live[self.known[self.rng.usize(0..self.known.len())]]
        } else {
            self.unique += 1;
            self.unique
        };
        if self.live[at] == 0 {
            self.known.push(at);
        }
        self.live[at] = content;
        self.times[at] += 1;
        if let WritesEnd::Overwritten(times) = self.end {
            self.behind -= usize::from(self.times[at] == times + 1);
        }
        self.written += 1;
        self.unflushed += 1;
        Some(ClientRequest::Write { first: at as u64, contents: vec![content] })
    }
}

/// Writes a volume's blocks one after the other, all different, then flushes.
#[derive(Clone, Debug)]
pub struct Sequential {
    at: u64,
    blocks: u64,
    request_blocks: u64,
}

impl Sequential {
    /// Writes the first `blocks` of a volume in requests of `request_blocks`.
    #[must_use]
    pub fn new(blocks: u64, request_blocks: u64) -> Self {
        Self { at: 0, blocks, request_blocks }
    }

    fn next(&mut self) -> Option<ClientRequest> {
        if self.at > self.blocks {
            return None;
        }
        let first = self.at;
        let end = (first + self.request_blocks).min(self.blocks);
        if first == end {
            self.at = self.blocks + 1;
            return Some(ClientRequest::Flush);
        }
        self.at = end;
        Some(ClientRequest::Write { first, contents: (first + 1..=end).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_comes_every_so_many_writes_and_at_the_end() {
        let load = Load::Random(Random::new(1, 10, 4, 0, WritesEnd::Writes(10)));
        let asks: Vec<bool> = load.map(|a| a == ClientRequest::Flush).collect();
        assert_eq!(asks, [0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 1].map(|f| f == 1));
    }

    #[test]
    fn it_ends_when_the_last_block_was_overwritten_often_enough() {
        let mut load = Random::new(1, 100, 32, 0, WritesEnd::Overwritten(4));
        while load.next().is_some() {}
        assert_eq!(load.times.iter().min(), Some(&5));
    }

    #[test]
    fn a_sequence_covers_everything_once_and_ends_with_a_flush() {
        let asks: Vec<ClientRequest> = Load::Sequential(Sequential::new(10, 4)).collect();
        let write = |first: u64, contents: &[u64]| ClientRequest::Write { first, contents: contents.to_vec() };
        assert_eq!(asks, [write(0, &[1, 2, 3, 4]), write(4, &[5, 6, 7, 8]), write(8, &[9, 10]), ClientRequest::Flush]);
    }
}
