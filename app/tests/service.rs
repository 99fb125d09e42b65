//! `attach --service`, as a unit of systemd runs it: it reports when it serves, and ends as the attachment does.

mod common;

use common::home::Home;
use common::nbd_client::*;
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const IMAGE: &str = "disk.img";

/// A home with a volume, and the socket of a service manager.
struct Manager {
    home: Home,
    socket: UnixDatagram,
}

impl Manager {
    fn new() -> Self {
        let home = Home::new();
        home.says(0, &["create", IMAGE, "--size", "32M"]);
        let socket = UnixDatagram::bind(home.path("notify")).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self { home, socket }
    }

    /// Starts the main process of a unit, and waits until it has reported that it serves.
    fn start(&self) -> Child {
        let mut command = self.home.command(&["attach", "--service", "--nbd", IMAGE]);
        let child = command.env("NOTIFY_SOCKET", self.home.path("notify")).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut buffer = [0; 4096];
        let length = self.socket.recv(&mut buffer).expect("a report within a minute");
        let report = String::from_utf8_lossy(&buffer[..length]).into_owned();
        let uri = self.home.json(&["status", IMAGE])["attached"]["location"].as_str().unwrap().to_owned();
        assert_eq!(report, format!("READY=1\nSTATUS=serves {uri}"));
        child
    }

    fn client(&self) -> Client {
        let uri = self.home.json(&["status", IMAGE])["attached"]["location"].as_str().unwrap().to_owned();
        Client::ready_for(uri.split("socket=").nth(1).unwrap().as_ref(), true, "")
    }

    fn is_attached(&self) -> bool {
        self.home.json(&["stats", IMAGE])["attached"].as_bool().unwrap()
    }
}

/// The exit code of a process that ends soon; none where a signal ended it.
fn code(mut child: Child) -> Option<i32> {
    let give_up = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        assert!(Instant::now() < give_up, "it does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn a_signal_detaches_in_order_and_so_does_detach() {
    let manager = Manager::new();
    let child = manager.start();
    manager.client().write(0, 0, &[7; 4096]).unwrap();
    signal(&child, Signal::TERM);
    assert_eq!(code(child), Some(0));
    assert_eq!(manager.home.json(&["check", "--data", IMAGE])["clean"].as_bool(), Some(true));
    let child = manager.start();
    assert!(manager.client().read(0, 4096).unwrap() == [7; 4096]);
    manager.home.says(0, &["detach", IMAGE]);
    assert_eq!(code(child), Some(0), "what somebody detaches by hand is not to be attached again");
}

/// systemd starts a unit again that has failed.
#[test]
fn the_end_of_both_processes_is_a_failure_and_another_start_has_everything() {
    let manager = Manager::new();
    let child = manager.start();
    let mut client = manager.client();
    client.write(0, 0, &[7; 4096]).unwrap();
    client.command(FLUSH, 0, 0, 0).unwrap();
    manager.home.kill(IMAGE);
    assert_eq!(code(child), Some(1));
    let child = manager.start();
    assert!(manager.client().read(0, 4096).unwrap() == [7; 4096]);
    // Either of the two alone is replaced, and the main process stays.
    let before = manager.home.processes(IMAGE);
    kill_process(before[0], Signal::KILL).unwrap();
    let give_up = Instant::now() + Duration::from_secs(30);
    while manager.home.processes(IMAGE)[0] == before[0] {
        assert!(Instant::now() < give_up, "no other supervisor comes");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(manager.client().read(0, 4096).unwrap() == [7; 4096]);
    signal(&child, Signal::TERM);
    assert_eq!(code(child), Some(0));
    assert!(!manager.is_attached());
}

#[test]
fn a_server_that_dies_again_and_again_is_a_failure() {
    let manager = Manager::new();
    let child = manager.start();
    let give_up = Instant::now() + Duration::from_secs(60);
    let mut child = Some(child);
    while let Some(mut running) = child.take() {
        if let Some(status) = running.try_wait().unwrap() {
            assert_eq!(status.code(), Some(1));
            break;
        }
        assert!(Instant::now() < give_up, "it never gives up");
        let output = manager.home.run(&["status", IMAGE, "--json"]);
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let server = status["attached"]["condition"]["pid"].as_i64().and_then(|pid| Pid::from_raw(pid as i32));
        if let Some(server) = server {
            let _ = kill_process(server, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(100));
        child = Some(running);
    }
    assert!(!manager.is_attached());
}

/// The volume is served on, and the next start does not find it in use.
#[test]
fn a_killed_main_process_is_followed_by_one_that_joins() {
    let manager = Manager::new();
    let mut child = manager.start();
    let server = manager.home.processes(IMAGE)[1];
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    assert!(manager.is_attached());
    let next = manager.start();
    assert_eq!(manager.home.processes(IMAGE)[1], server);
    signal(&next, Signal::TERM);
    assert_eq!(code(next), Some(0));
    assert!(!manager.is_attached());
    // What somebody attached by hand is joined as well.
    manager.home.attach(IMAGE, &[]);
    let child = manager.start();
    manager.home.says(0, &["detach", IMAGE]);
    assert_eq!(code(child), Some(0));
    manager.home.complaint(2, &["attach", "--service", "--foreground", IMAGE], "cannot be used with");
}
