//! A client that sends random requests, and remembers what each block may read as.

use crate::bench::{Bench, names_in};
use fastrand::Rng;
use onefold_engine::interface::{Op, Reply};
use onefold_sim::rivals::Baseline;
use std::collections::BTreeMap;

/// A request that is not answered yet.
struct OpenRequest {
    op: Op,
    first: u64,
    blocks: u64,
    /// For a flush, the number of versions of each block when it was sent; for a durable write, that of its own blocks.
    versions: Vec<(u64, usize)>,
}

pub struct Client {
    rng: Rng,
    logical: u64,
    strong: bool,
    /// Every version of each block, by name, the newest last.
    pub history: Vec<Vec<u64>>,
    /// The oldest version that a crash may leave.
    pub durable: Vec<usize>,
    open: BTreeMap<u64, OpenRequest>,
    unique: u64,
    pub reads: u64,
}

impl Client {
    pub fn new(seed: u64, logical: u64, strong: bool) -> Self {
        let words = usize::try_from(logical).expect("small");
        let rng = Rng::with_seed(seed ^ 0x5eed);
        Self {
            rng,
            logical,
            strong,
            history: vec![vec![0]; words],
            durable: vec![0; words],
            open: BTreeMap::new(),
            unique: 1 << 32,
            reads: 0,
        }
    }

    fn newest(&self, block: u64) -> (u64, usize) {
        (block, self.history[usize::try_from(block).expect("small")].len() - 1)
    }

    /// Sends one request; with `flushes` sometimes a flush.
    pub fn ask<M: Baseline>(&mut self, bench: &mut Bench<M>) {
        let first = self.rng.u64(0..self.logical);
        let blocks = self.rng.u64(1..=8).min(self.logical - first);
        let op = match self.rng.u8(0..100) {
            0..60 => Op::Write,
            60..85 => Op::Read,
            85..90 => Op::Discard,
            90..93 => Op::WriteZeroes,
            _ => Op::Flush,
        };
        let overlaps = |o: &OpenRequest| {
            o.op != Op::Flush && o.first < first + blocks && first < o.first + o.blocks && (op != Op::Read || o.op != Op::Read)
        };
        if op != Op::Flush && self.open.values().any(overlaps) {
            return;
        }
        let mut contents = Vec::new();
        if op != Op::Read && op != Op::Flush {
            contents = (0..blocks).map(|_| if op == Op::Write { self.content() } else { 0 }).collect();
            for (block, &name) in (first..).zip(&contents) {
                self.history[usize::try_from(block).expect("small")].push(name);
            }
        }
        let fua = op == Op::Write && self.rng.u8(0..20) == 0;
        let durable = fua || (self.strong && !contents.is_empty());
        let range = if op == Op::Flush {
            0..self.logical
        } else if durable {
            first..first + blocks
        } else {
            0..0
        };
        // A flush promises what was answered before it was sent; our writes that are still unanswered are not covered.
        let unanswered = |block: u64| self.open.values().any(|o| (o.first..o.first + o.blocks).contains(&block) && o.op != Op::Read);
        let versions = range.filter(|&block| op != Op::Flush || !unanswered(block)).map(|block| self.newest(block)).collect();
        let (first, blocks) = if op == Op::Flush { (0, 0) } else { (first, blocks) };
        let id = bench.ask(op, first, blocks, if op == Op::Write { &contents } else { &[] }, fua);
        self.open.insert(id, OpenRequest { op, first, blocks, versions });
    }

    fn content(&mut self) -> u64 {
        match self.rng.u8(0..100) {
            0..5 => 0,
            5..45 => self.rng.u64(1..40),
            _ => {
                self.unique += 1;
                self.unique
            }
        }
    }

    /// Takes the answers that have arrived.
    pub fn take_answers<M: Baseline>(&mut self, bench: &mut Bench<M>) {
        for (id, reply) in std::mem::take(&mut bench.replies) {
            let open = self.open.remove(&id).expect("it was asked");
            if open.op == Op::Read {
                self.reads += 1;
                let expected: Vec<u64> = (open.first..open.first + open.blocks)
                    .map(|block| *self.history[usize::try_from(block).expect("small")].last().expect("zeros at first"))
                    .collect();
                assert_eq!(names_in(&reply), expected, "a read of {} blocks from {}", open.blocks, open.first);
                continue;
            }
            assert!(matches!(reply, Reply::Done), "{:?} was answered with {reply:?}", open.op);
            for (block, version) in open.versions {
                let durable = &mut self.durable[usize::try_from(block).expect("small")];
                *durable = (*durable).max(version);
            }
        }
    }

    pub fn waits(&self) -> usize {
        self.open.len()
    }

    /// Compares every block, as it would be found, with what it may be.
    pub fn check(&self, found: impl Fn(u64) -> u64, when: &str) {
        for (block, (history, &durable)) in (0..).zip(self.history.iter().zip(&self.durable)) {
            let name = found(block);
            assert!(history[durable..].contains(&name), "{when}: block {block} is {name}, not one of {:?}", &history[durable..]);
        }
    }
}
