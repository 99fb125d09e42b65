//! The functions that open files, in front of those of the C library.
//!
//! open(2) has a variable argument, the mode. Ours take it as a fixed one: by the calling conventions of x86-64 and aarch64 it comes in the
//! same register, and where the caller gave none, the register's content is passed on to a function that does not look at it.
//!
//! The ABI is "C-unwind", since the functions of the C library are cancellation points: a thread that is cancelled there unwinds through
//! ours, which have nothing to drop at that time.

use crate::errno;
use crate::hint::{Access, Acts, pass_opened};
use crate::next;
use libc::{FILE, mode_t};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::ptr::null_mut;

/// Passes on the hints for a descriptor that a function returned, and returns it.
fn opened(fd: c_int, flags: c_int) -> c_int {
    if fd >= 0 {
        pass_opened(fd, Acts::of_flags(flags), Access::of_flags(flags));
    }
    fd
}

/// The same for a stream, which was opened with this mode.
///
/// # Safety
/// The mode ends with a zero byte, and the stream, where it is not null, is open.
unsafe fn opened_stream(stream: *mut FILE, mode: *const c_char) -> *mut FILE {
    if !stream.is_null() {
        // SAFETY: as the caller promises. A stream of a file has its descriptor.
        let (fd, mode) = unsafe { (libc::fileno(stream), CStr::from_ptr(mode)) };
        pass_opened(fd, Acts::NONE, Access::of_mode(mode.to_bytes()));
    }
    stream
}

fn without_ours(flags: c_int) -> c_int {
    flags & !Acts::of_flags(flags).flags()
}

/// Defines a function that calls the next one of the same name and type, and returns its result. Where there is none, it fails with ENOSYS.
macro_rules! interpose {
    ($(fn $name:ident($($arg:ident: $of:ty),*) -> $result:ty = $next:ident($($passed:expr),*), $failed:expr, |$got:ident| $do:expr;)*) => {
        $(
            /// Stands before the function of the C library.
            ///
            /// # Safety
            /// As that function has it.
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $name($($arg: $of),*) -> $result {
                let address = next::$next.address();
                if address.is_null() {
                    errno::set(libc::ENOSYS);
                    return $failed;
                }
                // SAFETY: the C library has a function of this type by this name.
                let next = unsafe { transmute::<*mut c_void, unsafe extern "C-unwind" fn($($of),*) -> $result>(address) };
                // SAFETY: the caller keeps to what the function demands.
                let $got = unsafe { next($($passed),*) };
                $do
            }
        )*
    };
}

const FAILED: c_int = -1;
const CREAT_FLAGS: c_int = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;

interpose! {
    fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int =
        OPEN(path, without_ours(flags), mode), FAILED, |fd| opened(fd, flags);
    fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int =
        OPEN64(path, without_ours(flags), mode), FAILED, |fd| opened(fd, flags);
    fn openat(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int =
        OPENAT(directory, path, without_ours(flags), mode), FAILED, |fd| opened(fd, flags);
    fn openat64(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int =
        OPENAT64(directory, path, without_ours(flags), mode), FAILED, |fd| opened(fd, flags);
    fn creat(path: *const c_char, mode: mode_t) -> c_int = CREAT(path, mode), FAILED, |fd| opened(fd, CREAT_FLAGS);
    fn creat64(path: *const c_char, mode: mode_t) -> c_int = CREAT64(path, mode), FAILED, |fd| opened(fd, CREAT_FLAGS);
}

// Programs that are compiled with _FORTIFY_SOURCE call these.
interpose! {
    fn __open_2(path: *const c_char, flags: c_int) -> c_int = OPEN_2(path, without_ours(flags)), FAILED, |fd| opened(fd, flags);
    fn __open64_2(path: *const c_char, flags: c_int) -> c_int = OPEN64_2(path, without_ours(flags)), FAILED, |fd| opened(fd, flags);
    fn __openat_2(directory: c_int, path: *const c_char, flags: c_int) -> c_int =
        OPENAT_2(directory, path, without_ours(flags)), FAILED, |fd| opened(fd, flags);
    fn __openat64_2(directory: c_int, path: *const c_char, flags: c_int) -> c_int =
        OPENAT64_2(directory, path, without_ours(flags)), FAILED, |fd| opened(fd, flags);
}

interpose! {
    fn mkstemp(template: *mut c_char) -> c_int = MKSTEMP(template), FAILED, |fd| opened(fd, libc::O_RDWR);
    fn mkstemp64(template: *mut c_char) -> c_int = MKSTEMP64(template), FAILED, |fd| opened(fd, libc::O_RDWR);
    fn mkostemp(template: *mut c_char, flags: c_int) -> c_int =
        MKOSTEMP(template, without_ours(flags)), FAILED, |fd| opened(fd, flags & !libc::O_ACCMODE | libc::O_RDWR);
    fn mkostemp64(template: *mut c_char, flags: c_int) -> c_int =
        MKOSTEMP64(template, without_ours(flags)), FAILED, |fd| opened(fd, flags & !libc::O_ACCMODE | libc::O_RDWR);
}

// SAFETY, of each: the caller's mode is a string, and a stream that was just opened is open.
interpose! {
    fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE =
        FOPEN(path, mode), null_mut(), |stream| unsafe { opened_stream(stream, mode) };
    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE =
        FOPEN64(path, mode), null_mut(), |stream| unsafe { opened_stream(stream, mode) };
    fn freopen(path: *const c_char, mode: *const c_char, old: *mut FILE) -> *mut FILE =
        FREOPEN(path, mode, old), null_mut(), |stream| unsafe { opened_stream(stream, mode) };
    fn freopen64(path: *const c_char, mode: *const c_char, old: *mut FILE) -> *mut FILE =
        FREOPEN64(path, mode, old), null_mut(), |stream| unsafe { opened_stream(stream, mode) };
}
