//! Other programs, with a limit of their run time.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Needs nothing: for tests that run anywhere.
pub const fn nothing() -> Result<(), String> {
    Ok(())
}

/// Returns whether there is such a program.
pub fn program(name: &str) -> Result<(), String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let places = path.split(':').chain(["/usr/sbin", "/sbin"]);
    let found = places.into_iter().any(|place| Path::new(place).join(name).exists());
    if found { Ok(()) } else { Err(format!("there is no program {name}")) }
}

/// Makes a command for a program of this machine.
pub fn command(words: &[&str]) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env("PATH", format!("{path}:/usr/sbin:/sbin")).stdin(Stdio::null());
    command
}

/// Runs a program that has to succeed in time, and returns its output.
pub fn run(words: &[&str], patience_s: u64) -> String {
    let output = try_run(words, patience_s);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{words:?}: {}\n{}{}", output.status, text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Runs a program that may fail, but has to end in time.
pub fn try_run(words: &[&str], patience_s: u64) -> Output {
    let mut child = command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap_or_else(|e| panic!("{words:?}: {e}"));
    let ended = wait_until(Duration::from_secs(patience_s), || child.try_wait().unwrap().is_some());
    if !ended {
        let _ = child.kill();
        panic!("{words:?} did not end within {patience_s} s");
    }
    child.wait_with_output().unwrap()
}

/// Waits for a condition; returns whether it became true in time.
pub fn wait_until(patience: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let give_up = Instant::now() + patience;
    while !condition() {
        if Instant::now() > give_up {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Random numbers, the same for the same seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}
