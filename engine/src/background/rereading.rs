//! What a page of fingerprints asks to be read, for the index.

use crate::units::{Pbn, Time};

/// The most blocks without a name in one read.
const RUN_BLOCKS_MAX: u64 = 16;
/// What one page of fingerprints asks to be read.
#[derive(Default)]
pub(crate) struct Rereading {
    /// Still to be read, the newest at the end.
    pub carriers: Vec<Pbn>,
    pub unnamed: Vec<Pbn>,
    /// Reads under way, and when the next ones may follow.
    pub reading: u64,
    pub pause: Option<Time>,
}

impl Rereading {
    /// Both ascend.
    pub fn ask(&mut self, carriers: Vec<Pbn>, unnamed: Vec<Pbn>) {
        (self.carriers, self.unnamed) = (carriers, unnamed);
    }

    fn is_empty(&self) -> bool {
        self.carriers.is_empty() && self.unnamed.is_empty()
    }

    pub fn is_under_way(&self) -> bool {
        !self.is_empty() || self.reading > 0
    }

    /// The newest neighbours among the blocks without a name, as one run.
    pub fn take_run(&mut self) -> Option<(Pbn, u64)> {
        let mut first = self.unnamed.pop()?;
        let mut blocks = 1;
        while let Some(&before) = self.unnamed.last() {
            if blocks == RUN_BLOCKS_MAX || before + 1 != first {
                break;
            }
            self.unnamed.pop();
            first = before;
            blocks += 1;
        }
        Some((first, blocks))
    }
}
