//! A program on a terminal of its own.

use super::home::Home;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::Read;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A program on a terminal of its own.
pub struct OnTerminal {
    pub terminal: File,
    pub child: Child,
    pub shown: String,
}

impl OnTerminal {
    pub fn start(home: &Home, words: &[&str]) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        tcsetwinsize(&terminal, Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
        let end = File::options().read(true).write(true).open(name).unwrap();
        let stdio = || Stdio::from(end.try_clone().unwrap());
        let child = home.command(words).stdin(stdio()).stdout(stdio()).stderr(stdio()).spawn().unwrap();
        Self { terminal: File::from(terminal), child, shown: String::new() }
    }

    /// Waits until the program has written this.
    pub fn shows(&mut self, wanted: &str) {
        let (mut bytes, start) = ([0; 4096], Instant::now());
        while !self.shown.contains(wanted) {
            assert!(start.elapsed() < Duration::from_secs(30), "{wanted:?} in {:?}", self.shown);
            let read = self.terminal.read(&mut bytes).unwrap();
            self.shown += &String::from_utf8_lossy(&bytes[..read]);
        }
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        // A failed test leaves it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
