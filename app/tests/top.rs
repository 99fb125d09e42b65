//! `top`: one screen as text, and the live screen on a terminal.

mod common;

use common::home::Home;
use common::nbd_client::*;
use common::terminal::OnTerminal;
use rustix::process::{Pid, Signal, kill_process};
use std::io::Write;

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
