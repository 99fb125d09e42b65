//! Devices that break the assumptions, each named for its sin. They sit between the machine and the simulated device.
//!
//! With them the checkers themselves are tested (a forgetful device has to show as lost writes), and the promises about damage (P6): what such
//! a device spoils is reported or harmless, never served.

use crate::content::{Content, Shared};
use fastrand::Rng;

/// A device call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Read,
    Write { first: u64, blocks: u64 },
    Flush,
    Discard,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Go,
    Fail,
}

/// A way in which a device goes wrong. Every method's default is to behave.
pub trait Sin {
    /// A call is issued.
    fn issued(&mut self, _call: Call) -> Verdict {
        Verdict::Go
    }
    /// A write lands elsewhere.
    fn redirect(&mut self, _first: u64, _blocks: u64) -> Option<u64> {
        None
    }
    /// A flush says that it is done, and did nothing.
    fn forgets_flush(&mut self) -> bool {
        false
    }
    /// A read is about to return this.
    fn found(&mut self, _first: u64, _contents: &mut [Shared], _rng: &mut Rng) {}
}

/// Acknowledges flushes that it does not do: against A1.
pub struct ForgetfulDevice;

impl Sin for ForgetfulDevice {
    fn forgets_flush(&mut self) -> bool {
        true
    }
}

/// Has no room for writes to some blocks, as a thin device or a sparse file on a full file system.
pub struct FullDevice {
    /// Writes from this block on fail.
    pub from: u64,
}

impl Sin for FullDevice {
    fn issued(&mut self, call: Call) -> Verdict {
        match call {
            Call::Write { first, blocks } if first + blocks > self.from => Verdict::Fail,
            _ => Verdict::Go,
        }
    }
}

/// Reads some blocks with a flipped bit.
pub struct RottenDevice {
    pub first: u64,
    pub blocks: u64,
}

impl Sin for RottenDevice {
    fn found(&mut self, first: u64, contents: &mut [Shared], rng: &mut Rng) {
        for (block, content) in (first..).zip(contents) {
            if (self.first..self.first + self.blocks).contains(&block) {
                let bit = rng.usize(0..4096 * 8);
                *content = content.patched(bit / 8, &[content.bytes()[bit / 8] ^ (1 << (bit % 8))]);
            }
        }
    }
}

/// Returns zeros for some blocks, as cheap flash does for what it lost.
pub struct BlankDevice {
    pub first: u64,
    pub blocks: u64,
}

impl Sin for BlankDevice {
    fn found(&mut self, first: u64, contents: &mut [Shared], _rng: &mut Rng) {
        for (block, content) in (first..).zip(contents) {
            if (self.first..self.first + self.blocks).contains(&block) {
                *content = Content::zero();
            }
        }
    }
}

/// Puts one write where another belongs.
pub struct MisdirectingDevice {
    /// Which write goes wrong, counted down.
    pub countdown: u64,
    pub to: u64,
}

impl Sin for MisdirectingDevice {
    fn redirect(&mut self, first: u64, blocks: u64) -> Option<u64> {
        if blocks != 1 || first == self.to {
            return None;
        }
        let now = self.countdown == 0;
        self.countdown = self.countdown.checked_sub(1).unwrap_or(u64::MAX);
        now.then_some(self.to)
    }
}
