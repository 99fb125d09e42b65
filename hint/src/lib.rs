//! Hints that programs give about their files, passed to the server of the volume that the files lie on.
//!
//! The library stands between a program and the C library, either linked to the program or preloaded. It interposes the functions that
//! open files, takes the flags `O_NODEDUP` and `O_PREFETCH` from their arguments, calls the function of the C library, and asks the
//! server by its control socket. `docs/hints-library.md` has the question, the environment variables and the limits.
//!
//! 1. No result changes: what the C library returned is returned, with its errno, and no flag of ours reaches the kernel.
//! 2. The program's file is opened first, and every descriptor of the library is closed before the program runs again, so that the
//!    program gets the numbers that it would have without the library. In between all signals of the thread are blocked.
//! 3. There is no lock, no allocation and no cancellation point in what the library adds: open(2) is async-signal-safe.
//! 4. A call waits at most for the patience that the settings have, and the first wait that ends so is the last one of the process.
//! 5. What several threads read is published once and never changes afterwards.

mod conversation;
mod errno;
mod file;
mod glob;
mod hint;
mod interpose;
mod next;
mod published;
mod question;
mod settings;
mod system;
mod text;
mod volumes;

use hint::{Acts, Refusal};
use std::ffi::c_int;

/// Passes a hint about an open file: see `hint/include/onefold_hint.h`. Returns 0, or -1 with errno set.
#[unsafe(no_mangle)]
pub extern "C" fn onefold_hint(fd: c_int, flags: c_int) -> c_int {
    let before = errno::get();
    let acts = Acts::of_flags(flags);
    let passed = if acts.is_empty() || flags != acts.flags() { Err(Refusal::Invalid) } else { hint::pass(fd, acts) };
    errno::set(passed.map_or_else(Refusal::errno, |()| before));
    if passed.is_ok() { 0 } else { -1 }
}

/// Runs before main: finds the functions of the C library, and reads the settings while nobody changes the environment.
extern "C" fn prepare() {
    let before = errno::get();
    next::find_all();
    let _ = settings::get();
    errno::set(before);
}

#[used]
#[unsafe(link_section = ".init_array")]
static PREPARE: extern "C" fn() = prepare;
