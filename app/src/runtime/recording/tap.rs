//! The tap by which requests can be recorded as they are admitted. While it is off, it costs one relaxed load.
//!
//! 1. A request is reported before it can be answered, in the order of admission: if one is answered before another comes, their records
//!    have that order.
//! 2. Content is not copied: the waiting content is the request's own buffer, frozen and so never changed again (R6), or the digests of it.
//! 3. A reporting thread waits only for other reporting threads, and no longer than it takes to add an entry.

use super::entry::{Asked, Content, LastGap, Wants};
use super::line::{Line, RELEASE_MAX, Spent};
use crate::memory::pool::Pool;
use onefold_engine::fingerprint::Fingerprinter;
use onefold_engine::interface::{Op, Request};
use onefold_engine::units::BLOCK_BYTES;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The tap of one target.
pub struct Tap {
    is_on: AtomicBool,
    line: Mutex<Option<Line>>,
    /// A recording that begins, runs or ends has taken it.
    pub(super) is_taken: AtomicBool,
    pub(super) pool: Arc<Pool>,
    /// The size of the device that clients see.
    pub(super) bytes: u64,
    /// The fingerprinter of the volume.
    pub(super) fingerprinter: Option<Fingerprinter>,
}

impl Tap {
    /// Returns a tap that is off, on a target of `bytes` whose buffers are of `pool`. `fingerprinter`: that of the target, if it has one.
    #[must_use]
    pub fn new(pool: Arc<Pool>, bytes: u64, fingerprinter: Option<Fingerprinter>) -> Self {
        let (is_on, is_taken) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { is_on, line: Mutex::new(None), is_taken, pool, bytes, fingerprinter }
    }

    /// Whether requests are to be reported.
    #[must_use]
    #[inline]
    pub fn is_on(&self) -> bool {
        // Relaxed: a thread that sees it late misses some first requests, or takes the lock in vain.
        self.is_on.load(Ordering::Relaxed)
    }

    /// Reports a request. Calls `content` for the form that is wanted, and only for a write that begins where a block does: a trace counts
    /// blocks from the beginning of a request, so no other has fingerprints. A trace has no questions about extents.
    pub fn tell(&self, asked: &Asked, content: impl FnOnce(Wants) -> Content) {
        if asked.op == Op::Extents {
            return;
        }
        let mut line = self.line();
        let Some(line) = line.as_mut() else { return };
        let has_names = asked.op == Op::Write && asked.offset % BLOCK_BYTES == 0;
        let content = if has_names { content(line.wants()) } else { Content::None };
        line.tell(*asked, content);
    }

    /// Reports the beginning of a phase; false where nothing is recorded, or there is no room at this moment.
    #[must_use]
    pub fn mark(&self, phase: String) -> bool {
        self.line().as_mut().is_some_and(|line| line.mark(phase))
    }

    /// Frees some of the contents that the recorder has read, at least as much as this many requests bring. The reporting threads call it,
    /// without holding a lock.
    pub fn release(&self, requests: usize) {
        for _ in 0..=requests / RELEASE_MAX {
            let spent = self.line().as_mut().map(|line| line.spent().take());
            drop(spent);
        }
    }

    pub(super) fn open(&self, line: Line) {
        *self.line() = Some(line);
        self.is_on.store(true, Ordering::Release);
    }

    /// Ends reporting. Returns the contents that the recorder still has to give back.
    pub(super) fn close(&self, last_gap: &LastGap) -> Option<Spent> {
        self.is_on.store(false, Ordering::Release);
        let line = self.line().take();
        line.map(|line| line.close(last_gap))
    }

    fn line(&self) -> MutexGuard<'_, Option<Line>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the content of a write in the form that the recorder wants.
pub fn content_of(request: &Request, wants: Wants) -> Content {
    match (&request.payload, wants) {
        (None, _) => Content::None,
        (Some(payload), Wants::Names) => Content::Named(payload.digests.clone()),
        (Some(payload), Wants::Bytes) => Content::Bytes(payload.buffer.clone()),
    }
}
