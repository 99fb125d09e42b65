//! A volume over NBD in the background has a supervisor: the socket is kept, and the server is replaced.

mod common;

use common::home::Home;
use common::nbd_client::*;
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const EIO: u32 = 5;

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn volume(home: &Home) {
    home.expect(0, &["create", "disk", "--size", "32M"]);
}

fn signal(pid: Pid, signal: Signal) {
    kill_process(pid, signal).unwrap();
}

/// Kills the server; returns once its clients can know.
fn kill_server(home: &Home) {
    signal(home.processes("disk")[1], Signal::KILL);
}

fn is_listed(home: &Home) -> bool {
    !home.json(&["list"])["volumes"].as_array().unwrap().is_empty()
}

fn left(home: &Home) -> Vec<PathBuf> {
    std::fs::read_dir(home.path("run")).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn is_clean(home: &Home) -> bool {
    let check = home.json(&["check", "--data", "disk"]);
    check["sound"] == true && check["clean"] == true
}

#[test]
fn a_client_that_connects_again_finds_all_that_was_acknowledged() {
    let home = Home::new();
    volume(&home);
    let socket = home.attach("disk", &["--commit-period", "600000"]);
    let mut client = Client::ready_for(&socket, true, "");
    client.write(0, 0, &[1; 4096]).unwrap();
    client.command(FLUSH, 0, 0, 0).unwrap();
    client.write(0, 4096, &[2; 4096]).unwrap();
    let [supervisor, server] = home.processes("disk");
    assert_ne!(supervisor, server);
    signal(server, Signal::KILL);
    assert!(client.is_closed(), "the connection outlives its server");
    // The client connects at once, while there is no server: it waits in the socket.
    let mut client = Client::ready_for(&socket, true, "");
    assert_eq!(client.read(0, 8192).unwrap(), [[1; 4096], [2; 4096]].concat());
    client.command(FLUSH, 0, 0, 0).unwrap();
    let now = home.processes("disk");
    assert!(now[0] == supervisor && now[1] != server, "{now:?}");
    assert!(home.says(0, &["status", "disk"]).contains("the server that had the volume before has died"));
    home.says(0, &["stats", "disk"]);
    drop(client);
    home.says(0, &["detach", "disk"]);
    assert!(left(&home).is_empty(), "{:?}", left(&home));
    assert!(is_clean(&home));
}

/// Kills a server whose journal somebody has deleted, with one write that no flush covers.
fn lose_the_journal(home: &Home) -> PathBuf {
    volume(home);
    let socket = home.attach("disk", &["--commit-period", "600000"]);
    let mut client = Client::ready_for(&socket, true, "");
    client.write(0, 0, &[1; 4096]).unwrap();
    client.command(FLUSH, 0, 0, 0).unwrap();
    client.write(0, 0, &[2; 4096]).unwrap();
    let server = home.processes("disk")[1];
    signal(server, Signal::STOP);
    let rings = left(home).into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "ring"));
    rings.for_each(|ring| std::fs::remove_file(ring).unwrap());
    signal(server, Signal::KILL);
    until("it is replaced", || home.run(&["status", "disk"]).status.success() && home.processes("disk")[1] != server);
    socket
}

#[test]
fn a_lost_journal_is_told_at_detach() {
    let home = Home::new();
    let _ = lose_the_journal(&home);
    // The next server dies before anybody learns of it.
    let server = home.processes("disk")[1];
    signal(server, Signal::KILL);
    until("it is replaced again", || home.run(&["status", "disk"]).status.success() && home.processes("disk")[1] != server);
    assert!(home.says(0, &["status", "disk"]).contains("the acknowledgement journal of the last server is lost"));
    home.complaint(8, &["detach", "disk"], "lost with its journal");
    assert!(is_clean(&home));
    home.attach("disk", &[]);
    home.says(0, &["detach", "disk"]);
}

#[test]
fn a_lost_journal_is_told_once() {
    let home = Home::new();
    let mut client = Client::ready_for(&lose_the_journal(&home), true, "");
    assert_eq!(client.command(FLUSH, 0, 0, 0), Err(EIO));
    client.command(FLUSH, 0, 0, 0).unwrap();
    drop(client);
    home.says(0, &["detach", "disk"]);
}

#[test]
fn an_address_stays_through_the_death_of_either() {
    let home = Home::new();
    volume(&home);
    let uri = home.says(0, &["attach", "--nbd=127.0.0.1:0", "disk"]);
    for victim in [0, 1, 0, 1] {
        let before = home.processes("disk");
        signal(before[victim], Signal::KILL);
        until("it is replaced", || {
            let output = home.run(&["status", "disk", "--json"]);
            output.status.success() && home.processes("disk")[victim] != before[victim]
        });
        assert_eq!(home.json(&["list"])["volumes"][0]["location"].as_str(), Some(uri.trim()));
        let address = uri.trim().strip_prefix("nbd://").unwrap().trim_end_matches('/');
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let mut greeting = [0; 8];
        std::io::Read::read_exact(&mut stream, &mut greeting).unwrap();
        assert_eq!(&greeting, b"NBDMAGIC");
    }
    home.says(4, &["attach", "--nbd", "disk"]);
    home.says(0, &["detach", "disk"]);
    assert!(is_clean(&home));
}

/// Makes a volume with one block, and returns the client that wrote it and its supervisor and server.
fn written(home: &Home) -> (Client, [Pid; 2]) {
    volume(home);
    let mut client = Client::ready_for(&home.attach("disk", &[]), true, "");
    client.write(0, 0, &[1; 4096]).unwrap();
    (client, home.processes("disk"))
}

/// Checks that the server still serves the same client, gets another supervisor, and closes the volume.
fn goes_on(home: &Home, mut client: Client, [supervisor, server]: [Pid; 2]) {
    assert_eq!(client.read(0, 4096).unwrap(), [1; 4096]);
    until("there is another supervisor", || home.processes("disk")[0] != supervisor);
    assert_eq!(home.processes("disk")[1], server);
    drop(client);
    home.says(0, &["detach", "disk"]);
    assert!(left(home).is_empty() && is_clean(home), "{:?}", left(home));
}

#[test]
fn the_death_of_the_supervisor_is_not_seen_by_clients() {
    let home = Home::new();
    let (client, [supervisor, server]) = written(&home);
    signal(supervisor, Signal::KILL);
    goes_on(&home, client, [supervisor, server]);
}

/// The kernel wakes it by SIGHUP.
#[test]
fn a_stopped_server_outlives_its_supervisor() {
    let home = Home::new();
    let (client, [supervisor, server]) = written(&home);
    signal(server, Signal::STOP);
    let state = || std::fs::read_to_string(format!("/proc/{}/stat", server.as_raw_nonzero())).unwrap();
    until("it is stopped", || state().rsplit(") ").next().unwrap().starts_with('T'));
    signal(supervisor, Signal::KILL);
    goes_on(&home, client, [supervisor, server]);
}

#[test]
fn the_death_of_both_ends_it_and_attach_serves_again() {
    let home = Home::new();
    volume(&home);
    let socket = home.attach("disk", &["--commit-period", "600000"]);
    let mut client = Client::ready_for(&socket, true, "");
    client.write(0, 0, &[1; 4096]).unwrap();
    home.kill("disk");
    home.complaint(3, &["detach", "disk"], "died before it was closed in order");
    assert!(!socket.exists());
    assert_eq!(home.attach("disk", &[]), socket);
    assert_eq!(Client::ready_for(&socket, true, "").read(0, 4096).unwrap(), [1; 4096]);
    home.kill("disk");
    // Nothing removes the rest before.
    home.attach("disk", &[]);
    home.says(0, &["detach", "disk"]);
    assert!(is_clean(&home));
}

/// If promised data are lost, the first flush reports it, once.
#[test]
fn a_flush_tells_that_acknowledged_writes_are_lost() {
    let home = Home::new();
    volume(&home);
    let socket = home.attach("disk", &["--commit-period", "600000"]);
    let mut client = Client::ready_for(&socket, true, "");
    client.write(0, 0, &[1; 4096]).unwrap();
    let [supervisor, server] = home.processes("disk");
    signal(supervisor, Signal::STOP);
    signal(server, Signal::KILL);
    let ring = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "ring");
    left(&home).iter().filter(|path| ring(path)).for_each(|path| std::fs::remove_file(path).unwrap());
    signal(supervisor, Signal::CONT);
    let mut client = Client::ready_for(&socket, true, "");
    assert_eq!(client.command(FLUSH, 0, 0, 0), Err(EIO));
    client.command(FLUSH, 0, 0, 0).unwrap();
    drop(client);
    home.says(0, &["detach", "disk"]);
}

#[test]
fn a_server_that_keeps_dying_is_given_up() {
    let home = Home::new();
    volume(&home);
    let socket = home.attach("disk", &[]);
    for death in 1..=5 {
        let server = home.processes("disk")[1];
        signal(server, Signal::KILL);
        until("it is replaced, or given up", || {
            let output = home.run(&["status", "disk", "--json"]);
            let is_there = output.status.success() && String::from_utf8_lossy(&output.stdout).contains("\"condition\"");
            if death < 5 { is_there && home.processes("disk")[1] != server } else { !is_listed(&home) }
        });
    }
    assert!(!socket.exists());
    let log = left(&home).into_iter().find(|path| path.extension().is_some_and(|end| end == "log")).expect("it leaves its log");
    assert!(std::fs::read_to_string(log).unwrap().contains("died 5 times"));
    home.says(3, &["detach", "disk"]);
    home.attach("disk", &[]);
    home.says(0, &["detach", "disk"]);
    assert!(is_clean(&home));
}

#[test]
fn a_detach_that_comes_while_the_server_is_replaced_is_carried_out() {
    let home = Home::new();
    volume(&home);
    for pause_ms in [0, 100, 200, 300] {
        let socket = home.attach("disk", &[]);
        Client::ready_for(&socket, true, "").write(0, 0, &[9; 4096]).unwrap();
        kill_server(&home);
        std::thread::sleep(Duration::from_millis(pause_ms));
        home.says(0, &["detach", "disk"]);
        assert!(left(&home).is_empty() && is_clean(&home), "{pause_ms}: {:?}", left(&home));
    }
}

/// The command does not report a volume as detached that was not closed.
#[test]
fn a_detach_during_which_both_are_killed_says_so() {
    let home = Home::new();
    volume(&home);
    let socket = home.attach("disk", &["--commit-period", "600000"]);
    Client::ready_for(&socket, true, "").write(0, 0, &[9; 4096]).unwrap();
    let [supervisor, server] = home.processes("disk");
    signal(supervisor, Signal::STOP);
    signal(server, Signal::KILL);
    std::thread::scope(|scope| {
        scope.spawn(|| home.complaint(3, &["detach", "disk"], "died before it was closed in order"));
        // The detach waits for the next server, which the supervisor does not start.
        std::thread::sleep(Duration::from_millis(300));
        signal(supervisor, Signal::KILL);
    });
    assert!(!is_listed(&home));
    home.attach("disk", &[]);
    home.says(0, &["detach", "disk"]);
    assert!(is_clean(&home));
}

#[test]
fn sigterm_to_either_detaches() {
    let home = Home::new();
    volume(&home);
    for role in [0, 1] {
        let socket = home.attach("disk", &[]);
        let mut client = Client::ready_for(&socket, true, "");
        client.write(0, 0, &[role + 1; 4096]).unwrap();
        signal(home.processes("disk")[usize::from(role)], Signal::TERM);
        until("it is over", || left(&home).is_empty());
        assert!(client.is_closed() && is_clean(&home));
    }
}

/// A socket at a place of the user's choice is kept and removed like the usual one.
#[test]
fn a_socket_elsewhere_is_kept_and_removed() {
    let home = Home::new();
    volume(&home);
    let socket = home.path("sockets/a");
    home.expect(0, &["attach", &format!("--nbd={socket}"), "disk"]);
    kill_server(&home);
    let mut client = Client::ready_for(Path::new(&socket), true, "");
    client.write(FUA, 0, &[1; 4096]).unwrap();
    drop(client);
    home.says(0, &["detach", "disk"]);
    assert!(!Path::new(&socket).exists() && left(&home).is_empty());
}

/// Without a supervisor nothing replaces the server.
#[test]
fn a_server_in_the_foreground_is_one_process() {
    let home = Home::new();
    volume(&home);
    let mut server = home.command(&["attach", "--nbd", "--foreground", "disk"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    until("it is attached", || is_listed(&home));
    let [attends, serves] = home.processes("disk");
    assert!(attends == serves && attends == Pid::from_child(&server));
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(!is_listed(&home));
}
