//! Where bios are seen: a ring in shared memory, which is drained without a system call.

mod bpf;
mod kernel;

use crate::join::Bio;
pub(crate) use bpf::Bpf;

/// What a drain has found out, apart from the bios.
pub(crate) struct Drained {
    /// Bios that were seen before the drain are hidden from it.
    pub is_behind: bool,
    /// Bios may have been lost since the last drain.
    pub has_lost: bool,
    /// The number of these, as far as it is known.
    pub lost: u64,
}

/// A way to see bios.
pub(crate) trait Seen {
    /// Passes on each bio that was seen before this began.
    fn drain(&mut self, each: impl FnMut(Bio)) -> Drained;
}
