//! The priority of a thread that has time.

/// Gives this thread idle priority, or the lowest that the system allows.
pub fn yield_to_all() {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure is whole and outlives the call; 0 is the calling thread.
    let refused = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) } != 0;
    if refused {
        let error = std::io::Error::last_os_error();
        tracing::warn!(%error, "the recorder cannot have idle priority, only a low one");
        // SAFETY: plain numbers; 0 is the calling thread.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
    }
}
