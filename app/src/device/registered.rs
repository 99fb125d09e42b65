//! Pool memory that is registered with io_uring.

use crate::memory::pool::Pool;
use io_uring::IoUring;

/// The arenas of the pool that are registered with the kernel, so that it need not look up and pin their pages for each transfer.
pub struct Registered {
    pub has: Vec<bool>,
    pub may_more: bool,
}

impl Registered {
    /// Returns the number of a buffer's arena among the registered ones; registers it where that is possible.
    pub fn index(&mut self, tag: u32, ring: &IoUring, pool: &Pool) -> Option<u16> {
        let number = tag.checked_sub(1)?;
        let has = self.has.get_mut(number as usize)?;
        if !*has && self.may_more {
            let (memory, length) = pool.arena(tag)?;
            let vector = [libc::iovec { iov_base: memory.cast(), iov_len: length }];
            // SAFETY: arenas stay where they are while the pool lives, and the reactor, which owns the ring, holds the pool.
            match unsafe { ring.submitter().register_buffers_update(number, &vector, None) } {
                Ok(()) => *has = true,
                Err(error) => {
                    tracing::debug!(%error, number, "no more buffers can be registered with io_uring");
                    self.may_more = false;
                }
            }
        }
        has.then(|| u16::try_from(number).expect("registered places are few"))
    }
}
