//! A hint: the acts that it is made of, and its way from an open file to a server.

use crate::file::{Device, File};
use crate::question::question;
use crate::settings::{self, Settings};
use crate::system::{self, Errno, Quiet};
use crate::{errno, glob, volumes};
use std::ffi::c_int;

const O_NODEDUP: c_int = 0x1000_0000;
const O_PREFETCH: c_int = 0x2000_0000;

/// The acts that a hint asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acts {
    nodedup: bool,
    prefetch: bool,
}

impl Acts {
    pub const NONE: Self = Self { nodedup: false, prefetch: false };

    /// Returns the acts among the flags of open(2).
    pub fn of_flags(flags: c_int) -> Self {
        Self { nodedup: flags & O_NODEDUP != 0, prefetch: flags & O_PREFETCH != 0 }
    }

    /// Returns the acts that a list of words names, parted by commas.
    pub fn of_words(list: &[u8]) -> Self {
        let has = |wanted: &str| list.split(|&byte| byte == b',').any(|word| word == wanted.as_bytes());
        Self { nodedup: has("nodedup"), prefetch: has("prefetch") }
    }

    /// Returns the flags of these acts.
    pub fn flags(self) -> c_int {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        flag(self.nodedup, O_NODEDUP) | flag(self.prefetch, O_PREFETCH)
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self == Self::NONE
    }

    fn or(self, other: Self) -> Self {
        Self { nodedup: self.nodedup || other.nodedup, prefetch: self.prefetch || other.prefetch }
    }

    /// Returns those that make sense for a file that is opened so: one is about what is written, the other about what is read.
    fn that_fit(self, access: Access) -> Self {
        Self { nodedup: self.nodedup && access.writes, prefetch: self.prefetch && access.reads }
    }

    /// Returns their words in a question.
    fn words(self) -> impl Iterator<Item = &'static str> {
        [(self.nodedup, "nodedup"), (self.prefetch, "prefetch")].into_iter().filter_map(|(is_set, word)| is_set.then_some(word))
    }
}

/// The ways in which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub reads: bool,
    pub writes: bool,
}

impl Access {
    /// Returns the access that the flags of open(2) ask for.
    pub fn of_flags(flags: c_int) -> Self {
        let mode = flags & libc::O_ACCMODE;
        let is_path = flags & libc::O_PATH != 0;
        let both = mode == libc::O_RDWR;
        Self { reads: !is_path && (both || mode == libc::O_RDONLY), writes: !is_path && (both || mode == libc::O_WRONLY) }
    }

    /// Returns the access that a mode of fopen(3) asks for. What follows a comma is the name of a character set.
    pub fn of_mode(mode: &[u8]) -> Self {
        let mode = mode.split(|&byte| byte == b',').next().unwrap_or_default();
        let both = mode.contains(&b'+');
        let is_for_reading = mode.first() == Some(&b'r');
        Self { reads: both || is_for_reading, writes: both || !is_for_reading }
    }
}

/// Why no server took a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The descriptor is not open.
    NotOpen(Errno),
    /// The file is not a regular one, or the flags are others.
    Invalid,
    /// No server has the device.
    Nobody,
    /// There is no room for a descriptor.
    NoRoom(Errno),
    /// The library asks nobody any more.
    Off,
}

impl Refusal {
    /// Returns the error number for the program.
    pub fn errno(self) -> Errno {
        match self {
            Self::NotOpen(errno) | Self::NoRoom(errno) => errno,
            Self::Invalid => libc::EINVAL,
            Self::Nobody => libc::ENODEV,
            Self::Off => libc::ENOTCONN,
        }
    }
}

/// Passes what the program and its environment want for a file that it has just opened. Leaves errno as it is.
pub fn pass_opened(fd: c_int, of_program: Acts, access: Access) {
    if volumes::is_off() {
        return;
    }
    let Some(settings) = settings::get() else { return };
    if of_program.or(settings.acts().that_fit(access)).is_empty() {
        return;
    }
    let before = errno::get();
    let quiet = Quiet::begin();
    if let Ok(Some(file)) = File::open_at(fd) {
        let is_named = settings.patterns().is_none_or(|patterns| glob::any_matches(patterns, file.path()));
        let of_user = if is_named { settings.acts().that_fit(access) } else { Acts::NONE };
        // The program did not ask, so nobody waits for the result.
        let _ = ask(settings, &file, of_program.or(of_user));
    }
    drop(quiet);
    errno::set(before);
}

/// Passes a hint for an open file. May change errno.
///
/// # Errors
/// Where no server has taken it.
pub fn pass(fd: c_int, acts: Acts) -> Result<(), Refusal> {
    let _quiet = Quiet::begin();
    let file = File::open_at(fd).map_err(Refusal::NotOpen)?.ok_or(Refusal::Invalid)?;
    let settings = settings::get().ok_or(Refusal::Off)?;
    if volumes::is_off() {
        return Err(Refusal::Off);
    }
    ask(settings, &file, acts)
}

fn ask(settings: &Settings, file: &File, acts: Acts) -> Result<(), Refusal> {
    let deadline_ns = system::now_ns().saturating_add(settings.patience_ns());
    let device: Device = file.device;
    acts.words().try_for_each(|word| volumes::pass(settings, device, &question(file, word), deadline_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_those_of_the_header_and_no_flags_of_the_kernel() {
        let header = include_str!("../include/onefold_hint.h");
        assert!(
            header.contains(&format!("#define O_NODEDUP 0x{O_NODEDUP:08x}")) && header.contains(&format!("O_PREFETCH 0x{O_PREFETCH:08x}"))
        );
        let of_kernel = libc::O_ACCMODE
            | libc::O_CREAT
            | libc::O_EXCL
            | libc::O_NOCTTY
            | libc::O_TRUNC
            | libc::O_APPEND
            | libc::O_NONBLOCK
            | libc::O_DSYNC
            | libc::O_ASYNC
            | libc::O_DIRECT
            | libc::O_DIRECTORY
            | libc::O_NOFOLLOW
            | libc::O_NOATIME
            | libc::O_CLOEXEC
            | libc::O_SYNC
            | libc::O_PATH
            | libc::O_TMPFILE;
        // Below them are flags that the kernel keeps for itself, up to bit 26.
        assert!(of_kernel & (O_NODEDUP | O_PREFETCH) == 0 && O_NODEDUP > 1 << 26 && O_PREFETCH > 0);
        assert_eq!(Acts::of_flags(O_NODEDUP | O_PREFETCH | of_kernel).flags(), O_NODEDUP | O_PREFETCH);
    }

    #[test]
    fn hints_of_the_user_fit_the_way_in_which_a_file_is_opened() {
        let both = Acts::of_words(b"prefetch,nodedup");
        let words = |access: Access| both.that_fit(access).words().collect::<Vec<_>>();
        assert_eq!(words(Access::of_flags(libc::O_RDONLY)), ["prefetch"]);
        assert_eq!(words(Access::of_flags(libc::O_WRONLY | libc::O_CREAT)), ["nodedup"]);
        assert_eq!(words(Access::of_flags(libc::O_RDWR)), ["nodedup", "prefetch"]);
        assert!(words(Access::of_flags(libc::O_PATH | libc::O_RDWR)).is_empty());
        for (mode, expected) in [("r", vec!["prefetch"]), ("ab", vec!["nodedup"]), ("rb+e", vec!["nodedup", "prefetch"])] {
            assert_eq!(words(Access::of_mode(mode.as_bytes())), expected, "{mode}");
        }
        assert_eq!(words(Access::of_mode(b"r,ccs=a+b")), ["prefetch"]);
        assert!(Acts::of_words(b"nodedups,none").is_empty());
    }
}
