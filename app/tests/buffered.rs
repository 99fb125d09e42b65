//! A store without direct I/O is written only on request.

mod common;

use common::home::Home;
use common::nbd_client::{Client, FUA};
use common::{have, run, skipped};
use std::path::Path;
use std::process::Command;

/// A file system without O_DIRECT.
struct Ramfs(String);

impl Ramfs {
    fn at(place: String) -> Self {
        std::fs::create_dir(&place).unwrap();
        run(Command::new("mount").args(["-t", "ramfs", "none", &place]));
        Self(place)
    }
}

impl Drop for Ramfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

fn ramfs(test: &str, home: &Home) -> Option<Ramfs> {
    if !rustix::process::geteuid().is_root() {
        skipped(test, "mounting needs root");
        return None;
    }
    have(test, &["mount", "umount"]).then(|| Ramfs::at(home.path("ram")))
}

#[test]
fn a_store_without_direct_io_is_written_only_on_request() {
    let home = Home::new();
    let Some(ramfs) = ramfs("a_store_without_direct_io_is_written_only_on_request", &home) else { return };
    let file = format!("{}/disk", ramfs.0);
    let refused = |words: &[&str]| {
        home.complaint(1, words, "has no direct I/O (O_DIRECT)");
        home.complaint(1, words, "--buffered");
    };
    refused(&["create", &file, "--size", "16M"]);
    assert!(!Path::new(&file).exists(), "half a volume helps nobody");
    home.expect(0, &["create", &file, "--size", "16M", "--buffered"]);
    refused(&["create", &file, "--force"]);
    refused(&["attach", "--nbd", &file]);
    refused(&["attach", "--nbd", "--passthrough", &file]);

    let socket = home.attach(&file, &["--buffered"]);
    let mut client = Client::ready_for(&socket, true, "");
    client.write(FUA, 0, &[7; 4096]).unwrap();
    drop(client);
    home.expect(0, &["detach", &file]);
    // Reading has no risk.
    assert_eq!(home.json(&["check", "--data", &file])["sound"].as_bool(), Some(true));
    let mut client = Client::ready_for(&home.attach(&file, &["--read-only"]), true, "");
    assert_eq!(client.read(0, 4096).unwrap(), [7; 4096]);
    drop(client);
    home.expect(0, &["detach", &file]);
}
