//! The functions of the C library that ours stand before.
//!
//! They are found before main, because dlsym(3) takes a lock and may allocate. Only if another library opens a file earlier than that,
//! they are found then.

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function that follows ours in the order of the libraries.
pub struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Next {
    const fn of(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(null_mut()) }
    }

    /// Returns its address; null where there is none.
    pub fn address(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: the name ends with a zero byte.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

macro_rules! functions {
    ($($place:ident $name:literal),* $(,)?) => {
        $(pub static $place: Next = Next::of($name);)*

        /// Finds all of them.
        pub fn find_all() {
            for next in [$(&$place),*] {
                next.address();
            }
        }
    };
}

functions! {
    OPEN c"open", OPEN64 c"open64", OPEN_2 c"__open_2", OPEN64_2 c"__open64_2",
    OPENAT c"openat", OPENAT64 c"openat64", OPENAT_2 c"__openat_2", OPENAT64_2 c"__openat64_2",
    CREAT c"creat", CREAT64 c"creat64",
    FOPEN c"fopen", FOPEN64 c"fopen64", FREOPEN c"freopen", FREOPEN64 c"freopen64",
    MKSTEMP c"mkstemp", MKSTEMP64 c"mkstemp64", MKOSTEMP c"mkostemp", MKOSTEMP64 c"mkostemp64",
}
