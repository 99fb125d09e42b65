//! Writes of parts of blocks, which lay their bytes over content that was read. Another change of their LBN may overtake them.
//!
//! The map entry alone does not show this: after its content was packed elsewhere, the same block may get other content, and the LBN may
//! then mean that.

use crate::units::Lbn;
use std::collections::BTreeMap;

/// The partial writes under way, by LBN.
#[derive(Default)]
pub(crate) struct PartialWrites {
    writes: BTreeMap<Lbn, Vec<PartialWrite>>,
}

struct PartialWrite {
    op: usize,
    is_overtaken: bool,
}

impl PartialWrites {
    /// Begins a write on what the LBN means now.
    pub fn begin(&mut self, lbn: Lbn, op: usize) {
        self.writes.entry(lbn).or_default().push(PartialWrite { op, is_overtaken: false });
    }

    /// Ends a write, or prepares it to begin again.
    pub fn end(&mut self, lbn: Lbn, op: usize) {
        let Some(parts) = self.writes.get_mut(&lbn) else { return };
        parts.retain(|part| part.op != op);
        if parts.is_empty() {
            self.writes.remove(&lbn);
        }
    }

    /// Marks the writes of the LBNs `first..end` as overtaken: these LBNs change what they mean.
    pub fn overtake(&mut self, first: Lbn, end: Lbn) {
        if !self.writes.is_empty() {
            self.writes.range_mut(first..end).flat_map(|(_, parts)| parts).for_each(|part| part.is_overtaken = true);
        }
    }

    /// Whether the LBN has changed since this write began.
    pub fn is_overtaken(&self, lbn: Lbn, op: usize) -> bool {
        self.writes.get(&lbn).is_some_and(|parts| parts.iter().any(|part| part.op == op && part.is_overtaken))
    }
}
