//! What front-ends serve: a [`Target`], be it a volume or, with `--passthrough`, the bare backing file.

use onefold_engine::buffer::BufferMut;
use onefold_engine::interface::{Failure, Hint, Op, Reply};
use std::cell::RefCell;
use std::sync::Arc;

/// What a front-end tells its clients before the first request.
#[derive(Clone, Debug)]
pub struct TargetInfo {
    pub bytes: u64,
    /// The largest read or write that it takes, in bytes. Discards and write-zeroes, which bring no data, have no limit.
    pub request_bytes_max: u64,
    /// The unit of requests that clients are told: 512 or more. Requests of 512 bytes are served whatever it is.
    pub sector_bytes: u32,
    pub read_only: bool,
}

/// One request on its way in. `buffer` is laid out as `onefold_engine::interface::Payload` says: block by block, a write that begins inside
/// a block leaves the first bytes of frame 0 unused.
pub struct Incoming {
    pub op: Op,
    pub offset: u64,
    pub length: u64,
    pub buffer: Option<BufferMut>,
    pub fua: bool,
    pub hint: Hint,
    /// Called once, from any thread, with the answer. It must not block for long and must not call the target.
    pub done: Box<dyn FnOnce(Reply) + Send>,
}

/// A block device as front-ends see it. All methods may be called from any thread.
pub trait Target: Send + Sync {
    fn info(&self) -> TargetInfo;

    /// Memory for a write's bytes; waits until the budget has room. `blocks` counts 4 KiB frames.
    ///
    /// # Errors
    /// When the target is closing.
    fn buffer(&self, blocks: usize) -> Result<BufferMut, Failure>;

    /// As [`buffer`](Self::buffer), but never waits: `None` when there is no room now. A front-end that holds buffers of requests it has
    /// not submitted may ask only this way: two that wait with their hands full would wait for each other for ever.
    fn try_buffer(&self, _blocks: usize) -> Option<BufferMut> {
        None
    }

    /// Has `ask` called, from any thread, when requests that were answered [`Failure::Full`] are to be sent again. It must not block and
    /// must not call the target. Only the first counts.
    fn when_room(&self, _ask: Box<dyn Fn() + Send + Sync>) {}

    /// Takes a batch of requests, in the order of arrival, leaving `batch` empty. A request that was answered before another was submitted
    /// is seen by it. Misaligned or out-of-range requests are answered [`Failure::Invalid`].
    fn submit(&self, batch: &mut Vec<Incoming>);
}

/// A target that front-ends share.
pub type SharedTarget = Arc<dyn Target>;

/// What a front-end has to do once for all the answers that one thread gives in one go.
pub trait Answers: Send + Sync {
    /// Sends those that were put off.
    fn send(&self);
}

thread_local! {
    /// Whose answers this thread has put off, while it answers several requests in one go.
    static PUT_OFF: RefCell<Option<Vec<Arc<dyn Answers>>>> = const { RefCell::new(None) };
}

/// Runs `work`, which answers requests; what [`put_off`] was told meanwhile goes out together, right after it.
pub fn together(work: impl FnOnce()) {
    if PUT_OFF.with_borrow(Option::is_some) {
        return work();
    }
    PUT_OFF.set(Some(Vec::new()));
    work();
    PUT_OFF.take().into_iter().flatten().for_each(|answers| answers.send());
}

/// Has `answers` sent when the thread is done with what it does together; false where it does nothing of the kind.
pub fn put_off<A: Answers + 'static>(answers: &Arc<A>) -> bool {
    PUT_OFF.with_borrow_mut(|list| {
        let Some(list) = list else { return false };
        if !list.iter().any(|known| std::ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(answers))) {
            list.push(answers.clone());
        }
        true
    })
}
