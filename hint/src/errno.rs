//! The calling thread's errno.

use std::ffi::c_int;

/// Returns the error number of the thread.
pub fn get() -> c_int {
    // SAFETY: the function returns the address of the thread's own variable, which lives as long as the thread.
    unsafe { *libc::__errno_location() }
}

/// Sets the error number of the thread.
pub fn set(number: c_int) {
    // SAFETY: as above; no reference to the variable outlives the statement.
    unsafe { *libc::__errno_location() = number }
}
