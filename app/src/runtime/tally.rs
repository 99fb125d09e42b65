//! Counting of requests and commands.

use onefold_engine::interface::Op;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};

/// The operations of one kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Count {
    pub what: String,
    pub operations: u64,
    pub bytes: u64,
}

/// The kinds of operations, with their names.
pub(super) const OPS: [(Op, &str); 5] =
    [(Op::Read, "reads"), (Op::Write, "writes"), (Op::Flush, "flushes"), (Op::Discard, "discards"), (Op::WriteZeroes, "write-zeroes")];

/// Counts requests or commands, from any thread.
#[derive(Debug, Default)]
pub struct Tally([(AtomicU64, AtomicU64); OPS.len()]);

impl Tally {
    /// Counts one more. Questions about extents move no data, and are not counted.
    pub fn count(&self, op: Op, bytes: u64) {
        let Some((operations, total)) = self.0.get(op as usize) else { return };
        operations.fetch_add(1, Ordering::Relaxed);
        total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns all counts.
    #[must_use]
    pub fn counts(&self) -> Vec<Count> {
        OPS.iter()
            .map(|&(op, name)| {
                let (operations, bytes) = &self.0[op as usize];
                Count { what: name.to_owned(), operations: operations.load(Ordering::Relaxed), bytes: bytes.load(Ordering::Relaxed) }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_op_has_its_own_line() {
        let tally = Tally::default();
        OPS.iter().zip(1..).for_each(|(&(op, _), n)| tally.count(op, n));
        tally.count(Op::Extents, 7);
        assert!(tally.counts().iter().zip(1..).all(|(count, n)| count.bytes == n && count.operations == 1), "{:?}", tally.counts());
    }
}
