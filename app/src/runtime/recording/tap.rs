//! Where requests can be recorded as they are admitted. Off, it costs one relaxed load.
//!
//! 1. A request is told before it can be answered, in the order of admission: where one was answered before another came, so their records
//!    stand.
//! 2. Content is not copied: what waits is the request's own buffer, frozen and so never changed again (R6), or the digests that were made
//!    of it.
//! 3. Who tells waits for nobody but others who tell, and no longer than it takes to write down a line.

use super::entry::{Asked, Content, LastGap, Wants};
use super::line::{LET_GO_MAX, Line, Spent};
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
    /// By a recording that begins, runs or ends.
    pub(super) is_taken: AtomicBool,
    pub(super) pool: Arc<Pool>,
    /// Of the device that clients see.
    pub(super) bytes: u64,
    /// What the volume names content by.
    pub(super) fingerprinter: Option<Fingerprinter>,
}

impl Tap {
    /// A tap that is off, on a target of `bytes` whose buffers are of `pool`, and which names content itself or not.
    #[must_use]
    pub fn new(pool: Arc<Pool>, bytes: u64, fingerprinter: Option<Fingerprinter>) -> Self {
        let (is_on, is_taken) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { is_on, line: Mutex::new(None), is_taken, pool, bytes, fingerprinter }
    }

    /// Whether requests are to be told.
    #[must_use]
    #[inline]
    pub fn is_on(&self) -> bool {
        // Relaxed: whoever sees it late misses some first requests, or takes the lock in vain.
        self.is_on.load(Ordering::Relaxed)
    }

    /// Tells a request. `content` is asked for in the form that is wanted, and only for a write that begins where a block does: a trace
    /// counts blocks from the beginning of a request, so no other has names.
    pub fn tell(&self, asked: &Asked, content: impl FnOnce(Wants) -> Content) {
        let mut line = self.line();
        let Some(line) = line.as_mut() else { return };
        let has_names = asked.op == Op::Write && asked.offset % BLOCK_BYTES == 0;
        let content = if has_names { content(line.wants()) } else { Content::None };
        line.tell(*asked, content);
    }

    /// Tells that a phase begins; false where nothing is recorded, or there is no room at this moment.
    #[must_use]
    pub fn mark(&self, phase: String) -> bool {
        self.line().as_mut().is_some_and(|line| line.mark(phase))
    }

    /// Lets go of some of what the recorder is done with, as much at least as so many requests bring. Who tells calls it, with no lock in
    /// hand.
    pub fn let_go(&self, requests: usize) {
        for _ in 0..=requests / LET_GO_MAX {
            let spent = self.line().as_mut().map(|line| line.spent().take());
            drop(spent);
        }
    }

    pub(super) fn open(&self, line: Line) {
        *self.line() = Some(line);
        self.is_on.store(true, Ordering::Release);
    }

    /// Tells no more. What the recorder is still to be rid of comes back.
    pub(super) fn close(&self, last_gap: &LastGap) -> Option<Spent> {
        self.is_on.store(false, Ordering::Release);
        let line = self.line().take();
        line.map(|line| line.close(last_gap))
    }

    fn line(&self) -> MutexGuard<'_, Option<Line>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a write brings, as the recorder wants it.
pub fn content_of(request: &Request, wants: Wants) -> Content {
    match (&request.payload, wants) {
        (None, _) => Content::None,
        (Some(payload), Wants::Names) => Content::Named(payload.digests.clone()),
        (Some(payload), Wants::Bytes) => Content::Bytes(payload.buffer.clone()),
    }
}
