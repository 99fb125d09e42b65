//! The place where the NBD server listens: only its owner may connect.

mod common;

use common::ram::RamTarget;
use common::{Scratch, nbd_client::Client};
use onefold::error::Error;
use onefold::frontend::nbd::{Config, Limits, Listen, Server};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

fn start(listen: Listen) -> Result<Server, Error> {
    Server::start(Config { listen, export: "my disk".into(), limits: Limits::default() }, Arc::new(RamTarget::new(1 << 20)))
}

fn unix(path: &Path) -> Listen {
    Listen::Unix(path.into())
}

/// Returns the message for the user.
fn complaint(result: Result<Server, Error>) -> String {
    result.err().expect("this must be refused").to_string()
}

#[test]
fn the_socket_is_0600_in_a_directory_of_mode_0700_that_is_made() {
    let scratch = Scratch::new();
    let path = scratch.path().join("new").join("s 1");
    let mut server = start(unix(&path)).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    assert_eq!(std::fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o7777, 0o700);
    assert_eq!(server.uri(), format!("nbd+unix:///my%20disk?socket={}/new/s%201", scratch.path().display()));
    assert_eq!(server.location(), server.uri());
    Client::fixed(&path);
    server.stop().unwrap();
    assert!(!path.exists());
}

#[test]
fn a_directory_that_others_can_enter_is_refused() {
    let scratch = Scratch::new();
    for mode in [0o701, 0o710, 0o755, 0o777] {
        let directory = scratch.path().join(format!("{mode:o}"));
        std::fs::create_dir(&directory).unwrap();
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(mode)).unwrap();
        let message = complaint(start(unix(&directory.join("s"))));
        assert!(message.contains("0700") && message.contains(&format!("{mode:o}")), "{message}");
    }
    let link = scratch.path().join("link");
    std::os::unix::fs::symlink(scratch.path(), &link).unwrap();
    complaint(start(unix(&link.join("s"))));
}

#[test]
fn a_dead_servers_socket_is_replaced_and_a_live_ones_never() {
    let scratch = Scratch::new();
    let path = scratch.path().join("s");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "left behind");
    let mut first = start(unix(&path)).unwrap();
    let message = complaint(start(unix(&path)));
    assert!(message.contains("already listens"), "{message}");
    Client::fixed(&path);
    first.stop().unwrap();

    std::fs::write(&path, "a file of the user's").unwrap();
    let message = complaint(start(unix(&path)));
    assert!(message.contains("no socket"), "{message}");
    assert_eq!(std::fs::read(&path).unwrap(), b"a file of the user's");
}

#[test]
fn stopping_removes_only_its_own_socket() {
    let scratch = Scratch::new();
    let path = scratch.path().join("s");
    let mut first = start(unix(&path)).unwrap();
    std::fs::remove_file(&path).unwrap();
    let _second = start(unix(&path)).unwrap();
    first.stop().unwrap();
    Client::fixed(&path);
}

#[test]
fn a_path_too_long_for_a_socket_is_named() {
    let scratch = Scratch::new();
    let message = complaint(start(unix(&scratch.path().join("x".repeat(120)))));
    assert!(message.contains("shorter") && message.contains(&"x".repeat(120)), "{message}");
}

#[test]
fn a_missing_directory_is_made_but_no_tree() {
    let scratch = Scratch::new();
    let _server = start(unix(&scratch.path().join("own/s"))).unwrap();
    let message = complaint(start(unix(&scratch.path().join("mistyped/deeper/s"))));
    assert!(message.contains("cannot create the directory") && message.contains("mistyped/deeper"), "{message}");
    assert!(!scratch.path().join("mistyped").exists());
}

#[test]
fn tcp_listens_on_loopback_only() {
    for refused in ["0.0.0.0:0", "[::]:0", "192.0.2.1:10809", "10.0.0.1:10809"] {
        let message = complaint(start(refused.parse().unwrap()));
        assert!(message.contains(refused) && message.contains("loopback"), "{message}");
    }
    let server = start("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = server.uri().strip_prefix("nbd://127.0.0.1:").unwrap().strip_suffix("/my%20disk").unwrap();
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port.parse().unwrap())).unwrap();
    let mut hello = [0; 18];
    std::io::Read::read_exact(&mut stream, &mut hello).unwrap();
    assert_eq!(&hello[..8], b"NBDMAGIC");
    // The port is in use now.
    let message = complaint(start(format!("localhost:{port}").parse().unwrap()));
    assert!(message.contains(port), "{message}");
}

#[test]
fn addresses_are_read_as_typed() {
    assert_eq!("/run/onefold/a.sock".parse::<Listen>().unwrap(), unix(Path::new("/run/onefold/a.sock")));
    assert_eq!("unix:a.sock".parse::<Listen>().unwrap(), unix(Path::new("a.sock")));
    assert_eq!("[::1]:1".parse::<Listen>().unwrap().to_string(), "[::1]:1");
    for wrong in ["", "10809", "localhost", "localhost:x", "example.org:1"] {
        let message = wrong.parse::<Listen>().unwrap_err().to_string();
        assert!(message.contains(&format!("'{wrong}'")) && message.contains("127.0.0.1:PORT"), "{message}");
    }
}
