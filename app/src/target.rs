//! The interface that front-ends serve: a [`Target`], be it a volume or, with `--passthrough`, the bare backing file.

use onefold_engine::buffer::BufferMut;
use onefold_engine::interface::{Failure, Op, Reply};
use std::cell::RefCell;
use std::sync::Arc;

/// The facts that a front-end reports to its clients before the first request.
#[derive(Clone, Debug)]
pub struct TargetInfo {
    pub bytes: u64,
    /// The largest read or write that it takes, in bytes. Discards and write-zeroes, which bring no data, have no limit.
    pub request_bytes_max: u64,
    /// The unit of requests that clients learn of: 512 or more. Requests of 512 bytes are served whatever it is.
    pub sector_bytes: u32,
    pub read_only: bool,
}

/// One arriving request. `buffer` has the layout of `onefold_engine::interface::Payload`: block by block, a write that begins inside a
/// block leaves the first bytes of frame 0 unused.
pub struct Incoming {
    pub op: Op,
    pub offset: u64,
    pub length: u64,
    pub buffer: Option<BufferMut>,
    pub fua: bool,
    /// The function that is called once, from any thread, with the answer. It must not block for long and must not call the target.
    pub done: Box<dyn FnOnce(Reply) + Send>,
}

/// A block device as front-ends see it. Any thread may call any method.
pub trait Target: Send + Sync {
    fn info(&self) -> TargetInfo;

    /// Returns memory for a write's bytes; waits until the budget has room. `blocks` counts 4 KiB frames.
    ///
    /// # Errors
    /// When the target is closing.
    fn buffer(&self, blocks: usize) -> Result<BufferMut, Failure>;

    /// Returns memory like [`buffer`](Self::buffer), but never waits: `None` when there is no room now. A front-end that holds buffers of
    /// requests it has not submitted may ask only this way: otherwise two that both hold buffers would wait for each other forever.
    fn try_buffer(&self, _blocks: usize) -> Option<BufferMut> {
        None
    }

    /// Sets the function that is called, from any thread, when requests that were answered [`Failure::Full`] are to be sent again. It must
    /// not block and must not call the target. Only the first one counts.
    fn when_room(&self, _ask: Box<dyn Fn() + Send + Sync>) {}

    /// Takes a batch of requests, in the order of arrival, and leaves `batch` empty. A request sees every request that was answered before
    /// it was submitted. Misaligned or out-of-range requests are answered [`Failure::Invalid`].
    fn submit(&self, batch: &mut Vec<Incoming>);
}

/// A target that front-ends share.
pub type SharedTarget = Arc<dyn Target>;

/// The work of a front-end that is done once for all the answers that one thread gives together.
pub trait Answers: Send + Sync {
    /// Sends the answers that were put off.
    fn send(&self);
}

thread_local! {
    /// The answers that this thread has put off, while it answers several requests together.
    static PUT_OFF: RefCell<Option<Vec<Arc<dyn Answers>>>> = const { RefCell::new(None) };
}

/// Runs `work`, which answers requests; answers that it gives to [`put_off`] meanwhile are sent together, right after it.
pub fn together(work: impl FnOnce()) {
    if PUT_OFF.with_borrow(Option::is_some) {
        return work();
    }
    PUT_OFF.set(Some(Vec::new()));
    work();
    PUT_OFF.take().into_iter().flatten().for_each(|answers| answers.send());
}

/// Has `answers` sent when the thread leaves [`together`]; false where it is not in there.
pub fn put_off<A: Answers + 'static>(answers: &Arc<A>) -> bool {
    PUT_OFF.with_borrow_mut(|list| {
        let Some(list) = list else { return false };
        if !list.iter().any(|known| std::ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(answers))) {
            list.push(answers.clone());
        }
        true
    })
}
