//! The built binary from a user's view: the output of each verb, and its exit code. These tests need no root, so they use NBD.

mod common;

use common::home::Home;
use common::nbd_client::*;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn signal(pid: &Value, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid.as_u64().unwrap()).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

#[test]
fn a_volume_lives_from_create_to_check() {
    let home = Home::new();
    let created = home.json(&["create", "disk.img", "--size", "64M", "--label", "mine"]);
    assert_eq!((created["version"].as_u64(), created["report"].as_str()), (Some(1), Some("create")));
    let logical = created["volume"]["logical_bytes"].as_u64().unwrap();
    let uuid = created["volume"]["uuid"].as_str().unwrap().to_owned();

    let socket = home.attach("disk.img", &[]);
    let mut client = Client::ready_for(&socket, true, "");
    assert_eq!(client.export_bytes, logical);
    let content: Vec<u8> = (0..1 << 20).map(|i: u32| (i / 4096 * 7 + i % 251) as u8).collect();
    for at in [0, 8 << 20] {
        client.write(0, at, &content).unwrap();
    }
    assert_eq!(client.command(FLUSH, 0, 0, 0), Ok(()));
    assert_eq!(client.read(8 << 20, 1 << 20).unwrap(), content);

    // Each of its names works.
    for name in ["mine", &uuid, "disk.img", &home.path("disk.img")] {
        assert_eq!(home.json(&["status", name])["volume"]["uuid"].as_str(), Some(uuid.as_str()));
    }
    let stats = home.json(&["stats", "mine"]);
    assert_eq!(stats["dedup"]["duplicates"].as_u64(), Some(256), "{stats:#}");
    assert_eq!(stats["ledger"]["client_units"].as_u64(), Some(512), "{stats:#}");
    assert_eq!(home.json(&["list"])["volumes"][0]["label"].as_str(), Some("mine"));

    home.says(4, &["attach", "--nbd", "mine"]);
    home.says(4, &["check", "mine"]);
    home.says(4, &["create", "disk.img", "--force"]);
    drop(client);
    home.says(0, &["detach", "mine"]);
    assert!(!socket.exists(), "the socket stayed");
    home.says(3, &["detach", "mine"]);

    let check = home.json(&["check", "--data", "mine"]);
    assert_eq!((check["sound"].as_bool(), check["clean"].as_bool()), (Some(true), Some(true)), "{check:#}");
    assert_eq!(check["counts"]["shared"].as_u64(), Some(256), "{check:#}");
    assert!(home.says(0, &["dump", "mine", "--lbn", "2048"]).contains("agrees"));
    let story = home.json(&["dump", "mine", "--lbn", "0"]);
    let pbn = story["leads_to"]["pbn"].to_string();
    assert_eq!(home.json(&["dump", "mine", "--pbn", &pbn])["links"]["lbns"], serde_json::json!([0, 2048]));
}

#[test]
fn a_killed_server_leaves_what_was_flushed() {
    let home = Home::new();
    home.says(0, &["create", "disk.img", "--size", "32M"]);
    let socket = home.attach("disk.img", &[]);
    let mut client = Client::ready_for(&socket, true, "");
    client.write(0, 4096, &[5; 8192]).unwrap();
    client.command(FLUSH, 0, 0, 0).unwrap();
    home.kill("disk.img");
    let socket = home.attach("disk.img", &[]);
    let mut client = Client::ready_for(&socket, true, "");
    assert_eq!(client.read(0, 16384).unwrap(), [[0; 4096], [5; 4096], [5; 4096], [0; 4096]].concat());
    drop(client);
    home.says(0, &["detach", "disk.img"]);
    home.says(0, &["check", "--data", "disk.img"]);
}

#[test]
fn nobody_waits_for_a_stopped_server() {
    let home = Home::new();
    home.says(0, &["create", "disk.img", "--size", "32M"]);
    home.attach("disk.img", &[]);
    let pid = home.json(&["status", "disk.img"])["pid"].clone();
    signal(&pid, rustix::process::Signal::STOP);
    let began = std::time::Instant::now();
    let (out, err) = home.expect(1, &["status", "disk.img"]);
    assert!(out.contains("no answer") && out.contains("nbd+unix") && err.contains(&format!("kill -CONT {pid}")), "{out}{err}");
    home.complaint(1, &["stats", "disk.img"], "is stopped");
    home.complaint(1, &["detach", "--timeout", "60", "disk.img"], "is stopped");
    assert_eq!(home.json(&["list"])["volumes"][0]["path"].as_str(), Some(home.path("disk.img").as_str()));
    assert!(began.elapsed() < std::time::Duration::from_secs(10), "{:?}", began.elapsed());
    signal(&pid, rustix::process::Signal::CONT);
    assert!(!home.says(0, &["status", "disk.img"]).contains("no answer"));
    home.says(0, &["detach", "disk.img"]);
}

#[test]
fn passthrough_writes_the_store_itself() {
    let home = Home::new();
    std::fs::File::create(home.path("raw.img")).unwrap().set_len(16 << 20).unwrap();
    let socket = home.attach("raw.img", &["--passthrough", "--io", "plain"]);
    let mut client = Client::ready_for(&socket, true, "");
    client.write(0, 1 << 20, &[9; 4096]).unwrap();
    drop(client);
    let status = home.json(&["status", "raw.img"]);
    assert_eq!(status["attached"]["condition"]["io"].as_str(), Some("plain threads"));
    assert_eq!(home.json(&["stats", "raw.img"])["client"][1]["operations"].as_u64(), Some(1));
    home.says(0, &["detach", "raw.img"]);
    let bytes = std::fs::read(home.path("raw.img")).unwrap();
    assert!(bytes[1 << 20..][..4096].iter().all(|&b| b == 9));
}

#[test]
fn clients_are_told_the_sector_and_may_name_the_label() {
    let home = Home::new();
    for (sector, label) in [("512", "a disk"), ("4096", "")] {
        home.says(0, &["create", "disk.img", "--size", "32M", "--force", "--sector", sector, "--label", label]);
        let socket = home.attach("disk.img", &[]);
        let mut client = Client::fixed(&socket);
        let replies = client.option(OPT_INFO, &export_request(label, &[]));
        let sizes = replies.iter().find(|(_, data)| data[..2] == [0, 3]).expect("the sizes are announced");
        assert_eq!(sizes.1[2..6], sector.parse::<u32>().unwrap().to_be_bytes());
        assert_eq!(client.option(OPT_INFO, &export_request("another", &[]))[0].0, ERR_UNKNOWN);
        // A client that does not ask uses sectors of 512 bytes.
        let mut client = Client::ready_for(&socket, true, "");
        client.write(0, 512, &[3; 1024]).unwrap();
        assert_eq!(client.read(0, 2048).unwrap(), [[0; 512], [3; 512], [3; 512], [0; 512]].concat());
        drop(client);
        home.says(0, &["detach", "disk.img"]);
    }
}

#[test]
fn sigterm_ends_a_foreground_server_cleanly() {
    let home = Home::new();
    home.says(0, &["create", "disk.img", "--size", "16M"]);
    let socket = home.path("a.sock");
    let mut server = home
        .command(&["attach", "--foreground", &format!("--nbd={socket}"), "disk.img"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(server.stdout.take().unwrap()), &mut line).unwrap();
    assert_eq!(line, format!("nbd+unix:///?socket={socket}\n"));
    let mut client = Client::ready_for(Path::new(&socket), true, "");
    client.write(0, 0, &[1; 4096]).unwrap();
    drop(client);
    rustix::process::kill_process(rustix::process::Pid::from_child(&server), rustix::process::Signal::TERM).unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(0));
    assert_eq!(home.json(&["check", "disk.img"])["clean"].as_bool(), Some(true));
}

#[test]
fn create_refuses_what_would_be_lost() {
    let home = Home::new();
    home.says(3, &["create", "none.img"]);
    home.says(2, &["create", "small.img", "--size", "1M"]);
    assert!(!Path::new(&home.path("small.img")).exists(), "a refused create left a file");
    home.says(2, &["create", "x.img", "--size", "many"]);
    home.says(2, &["create", "x.img", "--size", "16M", "--label", "a/b"]);
    home.says(2, &["create", "x.img", "--size", "16M", "--protect", "99999+2"]);
    home.says(0, &["create", "disk.img", "--size", "16M"]);
    assert!(home.says(5, &["create", "disk.img"]).contains("a Onefold volume"));
    let before = std::fs::read(home.path("disk.img")).unwrap();
    home.says(5, &["create", "disk.img"]);
    assert!(std::fs::read(home.path("disk.img")).unwrap() == before, "a refused create changed the file");
    home.says(0, &["create", "disk.img", "--force"]);
    // The file holds something that nobody recognizes.
    std::fs::write(home.path("notes"), vec![b'a'; 17 << 20]).unwrap();
    assert!(home.says(5, &["create", "notes"]).contains("data of no known kind"));
    let made = Command::new("mkfs.ext4").args(["-q", "-F", &home.path("fs.img"), "32M"]).status();
    match made {
        Ok(status) if status.success() => assert!(home.says(5, &["create", "fs.img"]).contains("ext4")),
        _ => println!("SKIPPED: mkfs.ext4 is not installed"),
    }
    home.says(0, &["create", "dry.img", "--size", "16M", "--dry-run"]);
    assert!(!Path::new(&home.path("dry.img")).exists(), "a dry run made a file");
}

#[test]
fn large_files_are_sparse_and_small_ones_are_not() {
    use std::os::unix::fs::MetadataExt;
    let home = Home::new();
    let allocated = |name: &str| std::fs::metadata(home.path(name)).unwrap().blocks() * 512;
    let large = home.json(&["create", "large.img", "--size", "8G"]);
    let (metadata, preallocated) = (large["metadata_bytes"].as_u64().unwrap(), large["preallocated"].as_bool());
    assert_eq!(preallocated, Some(false));
    // Superblocks at the end are added; data regions begin at multiples of 4 MiB.
    let least = metadata + large["ahead_bytes"].as_u64().unwrap() - (8 << 20);
    assert!((least..least + (9 << 20)).contains(&allocated("large.img")), "{}", allocated("large.img"));
    home.says(0, &["create", "small.img", "--size", "32M"]);
    assert!(allocated("small.img") >= 32 << 20);
    home.says(0, &["create", "thin.img", "--size", "32M", "--sparse"]);
    assert!(allocated("thin.img") < 2 << 20);
}

#[test]
fn damage_is_found_and_has_its_exit_code() {
    let home = Home::new();
    home.says(0, &["create", "disk.img", "--size", "16M"]);
    let path = home.path("disk.img");
    let socket = home.attach("disk.img", &[]);
    let mut client = Client::ready_for(&socket, true, "");
    client.write(0, 0, &[3; 4096]).unwrap();
    drop(client);
    home.says(0, &["detach", "disk.img"]);
    let at = usize::try_from(home.json(&["dump", "disk.img", "--lbn", "0"])["leads_to"]["at"].as_u64().unwrap()).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    home.says(0, &["check", "disk.img"]);
    assert!(home.says(6, &["check", "--data", "disk.img"]).contains("DAMAGED"));
    // P6: damaged content is not served.
    let socket = home.attach("disk.img", &[]);
    let mut client = Client::ready_for(&socket, true, "");
    assert!(client.read(0, 4096).is_err(), "damaged content was served");
    drop(client);
    home.says(0, &["detach", "disk.img"]);
    // Damage all copies of the superblock.
    let length = bytes.len();
    for at in [0, 4096, length - 8192, length - 4096] {
        bytes[at + 100] ^= 1;
    }
    std::fs::write(&path, &bytes).unwrap();
    home.says(6, &["attach", "--nbd", "disk.img"]);
    std::fs::write(&path, vec![0; 16 << 20]).unwrap();
    home.says(3, &["attach", "--nbd", "disk.img"]);
}

#[test]
fn other_versions_and_short_devices_are_named() {
    let home = Home::new();
    home.says(0, &["create", "disk.img", "--size", "32M"]);
    let path = home.path("disk.img");
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(31 << 20).unwrap();
    assert!(home.says(6, &["attach", "--nbd", "disk.img"]).contains("cut short"));
    home.says(2, &["attach"]);
    home.says(2, &["attach", "--nbd", "disk.img", "--memory", "1M"]);
    home.says(2, &["no-such-verb"]);
    home.says(3, &["attach", "--nbd", "no such volume"]);
    home.says(3, &["status", "./nothing"]);
}

#[test]
fn mistakes_are_called_by_what_was_typed() {
    let home = Home::new();
    std::fs::write(home.path("notes.txt"), "no volume").unwrap();
    home.says(0, &["create", "--size", "16M", "v"]);
    let says = |code, words: &[&str], message: &str| {
        let text = home.says(code, words);
        assert!(text.contains(message), "{words:?} says {text}");
    };
    says(3, &["check", "notes.txt"], "no Onefold volume");
    says(3, &["create", "--size", "16M", "nowhere/v"], "no folder nowhere");
    says(2, &["create", "--size", "1M", "small"], "--size 16M");
    says(2, &["attach", "v", "--memory", "1K"], "'1K' for '--memory <SIZE>': at least 2 MiB");
    says(2, &["check", "v", "--memory", "0"], "--memory 0 B: at least 1 MiB");
    says(2, &["detach"], "<VOLUME>");
    assert!(!Path::new(&home.path("small")).exists(), "what was refused is not made");
}

#[test]
fn help_tells_every_exit_code() {
    let home = Home::new();
    let help = home.says(0, &["--help"]);
    for code in 0..=10 {
        assert!(help.contains(&format!("\n  {code:>2}  ")), "{code} is not in\n{help}");
    }
}
