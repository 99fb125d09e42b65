//! The set checker of a life: by the rules of mode `ordered`, or by those of the log.

use crate::checkers::logcheck::LogChecker;
use crate::checkers::setcheck::{SetChecker, View};
use crate::ground::content::Shared;
use crate::ground::violation::Violation;

/// One of the two checkers.
pub enum Checker {
    Ordered(Box<SetChecker>),
    Log(Box<LogChecker>),
}

impl Checker {
    /// Checks a write of one block that is about to be issued.
    ///
    /// # Errors
    /// Fails if it breaks a rule.
    pub fn about_to_write(&mut self, block: u64, content: &Shared, view: View) -> Result<(), Violation> {
        match self {
            Self::Ordered(checker) => checker.about_to_write(block, content, view),
            Self::Log(checker) => checker.about_to_write(block, content, view),
        }
    }

    /// Checks a discard of one block that is about to be issued.
    ///
    /// # Errors
    /// Fails if something may still refer to it.
    pub fn about_to_discard(&self, block: u64) -> Result<(), Violation> {
        match self {
            Self::Ordered(checker) => checker.about_to_discard(block),
            Self::Log(checker) => checker.about_to_discard(block),
        }
    }

    /// Checks the states that are possible now that a write or discard of one block was issued.
    ///
    /// # Errors
    /// Fails if one of them is wrong.
    pub fn changed(&mut self, block: u64, view: View) -> Result<(), Violation> {
        match self {
            Self::Ordered(checker) => checker.changed(block, view),
            Self::Log(checker) => checker.changed(block, view),
        }
    }

    /// Notes that a flush, or a write with FUA, has completed and decided these blocks.
    ///
    /// # Errors
    /// Fails like [`Checker::changed`].
    pub fn decided(&mut self, blocks: &[u64], view: View) -> Result<(), Violation> {
        match self {
            Self::Ordered(checker) => blocks.iter().try_for_each(|&block| checker.changed(block, view)),
            Self::Log(checker) => checker.decided(blocks, view),
        }
    }

    /// Checks a block whose floor was raised.
    ///
    /// # Errors
    /// Returns P1 or P2 if something older is possible.
    pub fn floor_raised(&self, lbn: u64, view: View) -> Result<(), Violation> {
        match self {
            Self::Ordered(checker) => checker.floor_raised(lbn, view),
            Self::Log(checker) => checker.floor_raised(lbn, view),
        }
    }
}
