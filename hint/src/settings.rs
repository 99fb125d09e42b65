//! The settings, from the environment, read once: a program may change its environment at any time, and reading it then is a race.
//!
//! They have no effect in a program that has more rights than its user (`secure_getenv`).

use crate::hint::Acts;
use crate::published::Published;
use crate::text::Text;
use std::ffi::CStr;

/// The longest path of the run directory, in bytes: a socket's path has 107, and a name with its slash takes some of them.
const RUN_BYTES_MAX: usize = 96;
/// The longest list of patterns, in bytes.
const PATTERNS_BYTES_MAX: usize = 1024;
/// The time that a call may take, in milliseconds.
const PATIENCE_MS: u64 = 5;
const PATIENCE_MS_MAX: u64 = 1000;

/// The choices of the user.
pub struct Settings {
    acts: Acts,
    patterns: Option<Text<PATTERNS_BYTES_MAX>>,
    run: Option<Text<RUN_BYTES_MAX>>,
    patience_ns: u64,
}

static SETTINGS: Published<Settings> = Published::new();

/// Returns the settings; none while another thread reads them.
pub fn get() -> Option<&'static Settings> {
    if SETTINGS.get().is_none() {
        SETTINGS.publish(Settings::read);
    }
    SETTINGS.get()
}

impl Settings {
    fn read() -> Self {
        let asked = variable(c"ONEFOLD_HINT").map_or(Acts::NONE, Acts::of_words);
        // A list that is too long restricts to nothing, rather than to other files than those that it names.
        let patterns = variable(c"ONEFOLD_HINT_FILES").map(|list| text(&[list]).unwrap_or(Text::new()));
        let patience = variable(c"ONEFOLD_HINT_PATIENCE_MS").and_then(|word| std::str::from_utf8(word).ok()?.parse().ok());
        let patience_ns = patience.unwrap_or(PATIENCE_MS).min(PATIENCE_MS_MAX) * 1_000_000;
        Self { acts: asked, patterns, run: run_directory(), patience_ns }
    }

    /// The hints for all files that fit.
    pub fn acts(&self) -> Acts {
        self.acts
    }

    /// The patterns, parted by colons, one of which a file has to match; none where there is no such restriction.
    pub fn patterns(&self) -> Option<&[u8]> {
        self.patterns.as_ref().map(Text::bytes)
    }

    /// The directory of the control sockets; none where its path is too long.
    pub fn run(&self) -> Option<Text<RUN_BYTES_MAX>> {
        self.run
    }

    /// The time that a call may take, in nanoseconds.
    pub fn patience_ns(&self) -> u64 {
        self.patience_ns
    }
}

/// Returns the value of a variable, if it is not empty.
fn variable(name: &CStr) -> Option<&'static [u8]> {
    unsafe extern "C" {
        fn secure_getenv(name: *const std::ffi::c_char) -> *const std::ffi::c_char;
    }
    // SAFETY: the name ends with a zero byte.
    let value = unsafe { secure_getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: the value ends with a zero byte. It is copied before anything of the program runs that could change it.
    Some(unsafe { CStr::from_ptr(value) }.to_bytes()).filter(|value| !value.is_empty())
}

fn text<const N: usize>(parts: &[&[u8]]) -> Option<Text<N>> {
    let mut text = Text::new();
    parts.iter().all(|part| text.push(part)).then_some(text)
}

/// Returns the directory in which the commands of Onefold look for sockets.
fn run_directory() -> Option<Text<RUN_BYTES_MAX>> {
    if let Some(path) = variable(c"ONEFOLD_RUN_DIR") {
        return text(&[path]);
    }
    // SAFETY: the call has no arguments and does not fail.
    let user = unsafe { libc::geteuid() };
    if user == 0 {
        return text(&[b"/run/onefold"]);
    }
    if let Some(path) = variable(c"XDG_RUNTIME_DIR") {
        return text(&[path, b"/onefold"]);
    }
    let mut path: Text<RUN_BYTES_MAX> = text(&[variable(c"TMPDIR").unwrap_or(b"/tmp"), b"/onefold-"])?;
    path.push_number(user.into()).then_some(path)
}
