//! `top`: one screen as text, and the live screen on a terminal.

mod common;

use common::home::Home;
use common::nbd_client::*;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Two attached volumes: one with three writes of the same block, and an empty one.
fn two_volumes() -> (Home, Client) {
    let home = Home::new();
    home.says(0, &["create", "a.img", "--size", "32M", "--label", "photos"]);
    home.says(0, &["create", "b.img", "--size", "32M", "--label", "backup"]);
    let socket = home.attach("a.img", &[]);
    home.attach("b.img", &[]);
    let mut client = Client::ready_for(&socket, true, "");
    [0, 4096, 8192].into_iter().for_each(|at| client.write(0, at, &[7; 4096]).unwrap());
    client.command(FLUSH, 0, 0, 0).unwrap();
    (home, client)
}

#[test]
fn one_screen_is_printed_as_text() {
    let (home, client) = two_volumes();
    let screen = home.says(0, &["top", "--once", "photos"]);
    assert!(screen.lines().any(|line| line.starts_with("photos ") && line.contains("serving") && line.contains("67 %")), "{screen}");
    assert!(screen.contains("12 KiB of clients' blocks in 4 KiB that hold them"), "{screen}");
    assert!(!screen.lines().any(|line| line.starts_with("backup ")), "{screen}");
    let screen = home.says(0, &["top", "--once"]);
    assert!(screen.lines().any(|line| line.starts_with("backup ") && line.contains("serving")), "{screen}");
    drop(client);
    home.says(0, &["detach", "a.img"]);
    home.complaint(3, &["top", "--once", "a.img"], "a.img is not attached");
    home.complaint(3, &["top", "--once", "nowhere"], "nowhere");
    home.complaint(2, &["top", "--interval", "0"], "--interval");
    home.complaint(2, &["top", "backup"], "--once");
    home.says(0, &["detach", "b.img"]);
    assert!(home.says(0, &["top", "--once"]).contains("No volume is attached"));
}

/// A program on a terminal of its own.
struct OnTerminal {
    terminal: File,
    child: Child,
    shown: String,
}

impl OnTerminal {
    fn start(home: &Home, words: &[&str]) -> Self {
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
    fn shows(&mut self, wanted: &str) {
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

/// Leaving the other screen, and showing the cursor again.
const RESTORED: &str = "\x1b[?1049l\x1b[?25h";

#[test]
fn the_live_screen_obeys_keys_and_leaves_the_terminal_as_it_was() {
    let (home, _client) = two_volumes();
    let mut top = OnTerminal::start(&home, &["top"]);
    top.shows("photos");
    top.shows("another volume");
    top.shown.clear();
    top.terminal.write_all(b"j").unwrap();
    top.shows("backup");
    top.terminal.write_all(b"q").unwrap();
    top.shows(RESTORED);
    assert!(top.child.wait().unwrap().success());
}

#[test]
fn the_live_screen_ends_when_its_volume_is_gone() {
    let (home, client) = two_volumes();
    let mut top = OnTerminal::start(&home, &["top", "photos"]);
    top.shows("another volume");
    drop(client);
    home.says(0, &["detach", "a.img"]);
    top.shows(RESTORED);
    assert_eq!(top.child.wait().unwrap().code(), Some(3));
    top.shows("is not attached");
}

#[test]
fn a_signal_ends_the_live_screen_and_leaves_the_terminal_as_it_was() {
    let (home, _client) = two_volumes();
    let mut top = OnTerminal::start(&home, &["top"]);
    top.shows("another volume");
    kill_process(Pid::from_child(&top.child), Signal::TERM).unwrap();
    top.shows(RESTORED);
    assert!(top.child.wait().unwrap().success());
}
