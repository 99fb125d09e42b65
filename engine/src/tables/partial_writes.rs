//! Writes of parts of blocks that lay their bytes over what was read: which of them have been overtaken by another change of their LBN.
//!
//! What an LBN means does not tell by itself: content that was packed away may be followed, in the same block, by other content, which the
//! LBN then comes to mean.

use crate::units::Lbn;
use std::collections::BTreeMap;

/// Such writes, by LBN.
#[derive(Default)]
pub(crate) struct PartialWrites {
    writes: BTreeMap<Lbn, Vec<PartialWrite>>,
}

struct PartialWrite {
    op: usize,
    is_overtaken: bool,
}

impl PartialWrites {
    /// This write goes by what the LBN means now.
    pub fn begin(&mut self, lbn: Lbn, op: usize) {
        self.writes.entry(lbn).or_default().push(PartialWrite { op, is_overtaken: false });
    }

    /// This write has ended, or begins again.
    pub fn end(&mut self, lbn: Lbn, op: usize) {
        let Some(parts) = self.writes.get_mut(&lbn) else { return };
        parts.retain(|part| part.op != op);
        if parts.is_empty() {
            self.writes.remove(&lbn);
        }
    }

    /// These LBNs, `first..end`, come to mean something else.
    pub fn overtake(&mut self, first: Lbn, end: Lbn) {
        if !self.writes.is_empty() {
            self.writes.range_mut(first..end).flat_map(|(_, parts)| parts).for_each(|part| part.is_overtaken = true);
        }
    }

    /// Whether the LBN has been changed since this write began.
    pub fn is_overtaken(&self, lbn: Lbn, op: usize) -> bool {
        self.writes.get(&lbn).is_some_and(|parts| parts.iter().any(|part| part.op == op && part.is_overtaken))
    }
}
