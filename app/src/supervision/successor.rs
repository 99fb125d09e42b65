//! The successor of a supervisor: when a supervisor dies, its server starts the next one.

use super::limit::{DeathLimit, Deaths};
use super::running::wait_end;
use crate::supervision::start::Start;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

/// The stack of the thread: little is done here, and with mlockall(2) all of a stack may be locked.
const STACK_BYTES: usize = 256 << 10;

/// Watches the process of `supervisor`, a pidfd, on a thread of its own. When that ends before this process does, runs `command`, which has
/// to adopt this process, and watches the new one. `gives_way`: that first supervisor is to end, so that one of this program follows.
///
/// # Errors
/// When no thread is available.
pub fn watch(supervisor: OwnedFd, gives_way: bool, mut command: impl FnMut() -> Start + Send + 'static) -> io::Result<()> {
    let next = move || {
        let limit = DeathLimit::default();
        let mut deaths = Deaths::new(limit);
        wait_end(&supervisor);
        let mut is_orderly = gives_way;
        loop {
            if deaths.are_too_many(Instant::now()) {
                tracing::warn!("supervisors keep dying: the next one is started in {:?}", limit.within);
                std::thread::sleep(limit.within);
            }
            if std::mem::take(&mut is_orderly) {
                tracing::info!("the supervisor gave way: starting one of this program");
            } else {
                tracing::warn!("the supervisor died: starting another");
            }
            // It ends after this process, unless it dies as well.
            match command().spawn().and_then(|mut child| child.wait()) {
                Ok(status) => tracing::warn!(%status, "the supervisor ended"),
                Err(error) => tracing::error!(%error, "cannot start a supervisor"),
            }
        }
    };
    std::thread::Builder::new().name("successor".to_owned()).stack_size(STACK_BYTES).spawn(next).map(drop)
}
