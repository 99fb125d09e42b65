//! The priority of a thread that has time.

/// The niceness of a thread that has to keep up with others, and of one that has not.
const NICE: libc::c_int = 10;
const NICEST: libc::c_int = 19;

/// Gives this thread idle priority, or the lowest that the system allows.
pub fn yield_to_all() {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure is whole and outlives the call; 0 is the calling thread.
    let refused = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) } != 0;
    if refused {
        let error = std::io::Error::last_os_error();
        tracing::warn!(%error, "the recorder cannot have idle priority, only a low one");
        be_nice(NICEST);
    }
}

/// Gives this thread a low priority: it gets a tenth of a processor that others want, and does not interrupt them when it wakes up.
pub fn yield_to_others() {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure is whole and outlives the call; 0 is the calling thread. Where it is refused, niceness alone has to do.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters) };
    be_nice(NICE);
}

/// Lets others have the processor now, if they wait for it. A thread that has slept is not interrupted for some 3 ms, whatever its priority
/// (Linux 6.18), and its turn is what others wait for: at ten thousand writes a second each of its turns held up a write for so long.
pub fn let_others_in() {
    std::thread::yield_now();
}

fn be_nice(niceness: libc::c_int) {
    // SAFETY: plain numbers; 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, niceness) };
}
