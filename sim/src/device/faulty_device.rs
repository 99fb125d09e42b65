//! Devices that break the assumptions, each named for its fault. They sit between the machine and the simulated device.
//!
//! They test the checkers themselves (the faults of a forgetful device have to be found as lost writes), and the promises about damage
//! (P6): what such a device damages is reported or harmless, never served.

use crate::ground::content::{Content, Shared};
use fastrand::Rng;

/// A device call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Read,
    Write { first: u64, blocks: u64 },
    Flush,
    Discard,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    Go,
    Fail,
}

/// A fault of a device. By default every method behaves correctly.
pub trait DeviceFault {
    /// Returns the outcome of a call that is issued.
    fn issued(&mut self, _call: Call) -> CallOutcome {
        CallOutcome::Go
    }
    /// Returns the block that a write is misdirected to.
    fn redirect(&mut self, _first: u64, _blocks: u64) -> Option<u64> {
        None
    }
    /// Returns whether a flush reports success without doing anything.
    fn forgets_flush(&mut self) -> bool {
        false
    }
    /// Changes what a read is about to return.
    fn found(&mut self, _first: u64, _contents: &mut [Shared], _rng: &mut Rng) {}
}

/// Acknowledges flushes that it does not perform: against A1.
pub struct ForgetfulDevice;

impl DeviceFault for ForgetfulDevice {
    fn forgets_flush(&mut self) -> bool {
        true
    }
}

/// Has no room for writes to some blocks, like a thin device or a sparse file on a full file system.
pub struct FullDevice {
    /// The first block whose writes fail.
    pub from: u64,
}

impl DeviceFault for FullDevice {
    fn issued(&mut self, call: Call) -> CallOutcome {
        match call {
            Call::Write { first, blocks } if first + blocks > self.from => CallOutcome::Fail,
            _ => CallOutcome::Go,
        }
    }
}

/// Reads some blocks with a flipped bit.
pub struct RottenDevice {
    pub first: u64,
    pub blocks: u64,
}

impl DeviceFault for RottenDevice {
    fn found(&mut self, first: u64, contents: &mut [Shared], rng: &mut Rng) {
        for (block, content) in (first..).zip(contents) {
            if (self.first..self.first + self.blocks).contains(&block) {
                let bit = rng.usize(0..4096 * 8);
                *content = content.patched(bit / 8, &[content.bytes()[bit / 8] ^ (1 << (bit % 8))]);
            }
        }
    }
}

/// Returns zeros for some blocks, as cheap flash does for data that it lost.
pub struct BlankDevice {
    pub first: u64,
    pub blocks: u64,
}

impl DeviceFault for BlankDevice {
    fn found(&mut self, first: u64, contents: &mut [Shared], _rng: &mut Rng) {
        for (block, content) in (first..).zip(contents) {
            if (self.first..self.first + self.blocks).contains(&block) {
                *content = Content::zero();
            }
        }
    }
}

/// Misdirects one write to the place of another.
pub struct MisdirectingDevice {
    /// The number of writes before the one that goes wrong.
    pub countdown: u64,
    pub to: u64,
}

impl DeviceFault for MisdirectingDevice {
    fn redirect(&mut self, first: u64, blocks: u64) -> Option<u64> {
        if blocks != 1 || first == self.to {
            return None;
        }
        let now = self.countdown == 0;
        self.countdown = self.countdown.checked_sub(1).unwrap_or(u64::MAX);
        now.then_some(self.to)
    }
}
