//! A volume as other programs see it: Prometheus' text, and the variables that udev imports.

mod common;

use common::home::Home;
use common::nbd_client::*;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Child;
use std::time::{Duration, Instant};

const IMAGE: &str = "disk.img";
const LABEL: &str = "my \"photos\"";

/// Returns the value of each sample, by its name and labels; all lines have to follow the format.
fn samples(text: &str) -> BTreeMap<String, u64> {
    let (mut found, mut family, mut is_histogram) = (BTreeMap::new(), String::new(), false);
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').expect("a help text");
            assert!(help.ends_with('.'), "{line}");
            family = name.to_owned();
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let kind = kind.strip_prefix(&format!("{family} ")).unwrap_or_else(|| panic!("{line} after the help of {family}"));
            assert_eq!(kind == "counter", family.ends_with("_total"), "{line}");
            is_histogram = kind == "histogram";
        } else {
            let (name, value) = line.rsplit_once(' ').expect("a value");
            let (of, _) = name.split_once("{store=\"").unwrap_or_else(|| panic!("{line}"));
            let part = of.strip_prefix(&family).unwrap_or_else(|| panic!("{line} below {family}"));
            assert!(if is_histogram { ["_bucket", "_sum", "_count"].contains(&part) } else { part.is_empty() }, "{line} below {family}");
            assert!(name.contains("label=\"my \\\"photos\\\""), "{line}");
            let before = found.insert(name.to_owned(), value.parse::<f64>().unwrap_or_else(|_| panic!("{line}")) as u64);
            assert_eq!(before, None, "{line} twice");
        }
    }
    found
}

fn value(samples: &BTreeMap<String, u64>, name: &str, label: &str) -> Option<u64> {
    let is_it = |of: &&String| of.starts_with(&format!("onefold_{name}{{")) && of.contains(label);
    samples.iter().find(|(of, _)| is_it(of)).map(|(_, value)| *value)
}

#[test]
fn prometheus_sees_what_json_has() {
    let home = Home::new();
    home.says(0, &["create", IMAGE, "--size", "32M", "--label", LABEL]);
    let socket = home.attach(IMAGE, &[]);
    let mut client = Client::ready_for(&socket, true, "");
    for at in [0, 4096, 8192] {
        client.write(0, at, &[7; 4096]).unwrap();
    }
    client.command(FLUSH, 0, 0, 0).unwrap();
    let found = samples(&home.says(0, &["stats", IMAGE, "--prometheus"]));
    let json = home.json(&["stats", IMAGE]);
    assert_eq!(value(&found, "attached", ""), Some(1));
    assert_eq!(value(&found, "written_blocks_total", "result=\"duplicate\""), Some(2));
    assert_eq!(value(&found, "written_blocks_total", "result=\"new\""), json["dedup"]["new_blocks"].as_u64());
    assert_eq!(value(&found, "client_requests_total", "request=\"writes\""), Some(3));
    assert_eq!(value(&found, "client_bytes_total", "request=\"writes\""), Some(3 * 4096));
    assert_eq!(value(&found, "blocks", "links=\"free\""), json["space"]["free_blocks"].as_u64());
    assert!(value(&found, "memory_limit_bytes", "part=\"index\"") > Some(0));
    assert_eq!(value(&found, "state", "state=\"serving\""), Some(1));
    assert_eq!(value(&found, "client_request_seconds_count", "request=\"writes\""), Some(3));
    assert_eq!(value(&found, "client_request_seconds_bucket", "request=\"writes\",le=\"+Inf\""), Some(3));
    assert_eq!(value(&found, "device_errors_total", "command=\"writes\""), Some(0));
    assert_eq!(value(&found, "damage_reports_total", ""), Some(0));
    assert!(value(&found, "host_available_bytes", "") <= value(&found, "host_bytes", ""));
    drop(client);
    home.says(0, &["detach", IMAGE]);
    let found = samples(&home.says(0, &["stats", IMAGE, "--prometheus"]));
    assert_eq!((value(&found, "attached", ""), value(&found, "logical_bytes", "")), (Some(0), Some(3 * 4096)));
    assert_eq!(value(&found, "physical_bytes", ""), Some(4096));
    assert_eq!(value(&found, "written_blocks_total", ""), None, "nobody counts it");
    home.complaint(2, &["stats", IMAGE, "--prometheus", "--json"], "--json");
    home.complaint(2, &["stats", IMAGE, "--prometheus", "--watch"], "--watch");
    home.complaint(3, &["stats", "nowhere", "--prometheus"], "nowhere");
}

/// A process that is ended with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until it is so; returns whether it was in half a minute.
fn eventually(is_so: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !is_so() {
        if start.elapsed() > Duration::from_secs(30) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

/// Asks for a page over the socket, and returns what was answered.
fn page(socket: &str, request: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    write!(stream, "{request} HTTP/1.1\r\nHost: onefold\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_scraper_sees_all_attached_volumes_on_a_socket() {
    let home = Home::new();
    for image in ["a.img", "b.img", "c.img"] {
        home.says(0, &["create", image, "--size", "32M", "--label", &format!("{LABEL} {image}")]);
    }
    let _volumes = ["a.img", "b.img"].map(|image| home.attach(image, &[]));
    let socket = home.path("metrics");
    let mut listener = Process(home.command(&["stats", "--prometheus", "--listen", "metrics"]).spawn().unwrap());
    // Both when it begins to listen, and beside it.
    assert!(eventually(|| UnixStream::connect(&socket).is_ok()), "nobody listens");
    home.complaint(4, &["stats", "--prometheus", "--listen", "metrics"], "another process listens");

    let answer = page(&socket, "GET /metrics");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("text/plain; version=0.0.4"), "{head}");
    let found = samples(body);
    // Others use the disk meanwhile.
    let of_volumes = |text: &str| {
        let is_of_it = |line: &&str| !["onefold_disk_", "onefold_host_"].iter().any(|other| line.starts_with(other));
        text.lines().filter(is_of_it).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(of_volumes(body), of_volumes(&home.says(0, &["stats", "--prometheus"])), "as it is printed");
    let of = |samples: &BTreeMap<String, u64>, name: &str, image: &str| value(samples, name, &home.path(image));
    assert_eq!(["a.img", "b.img", "c.img"].map(|image| of(&found, "attached", image)), [Some(1), Some(1), None]);
    assert!(page(&socket, "GET /").starts_with("HTTP/1.1 404 "));
    assert!(page(&socket, "POST /metrics").starts_with("HTTP/1.1 405 "));

    // A server that does not answer hides no other volume.
    let [supervisor, server] = home.processes("a.img");
    kill_process(supervisor, Signal::STOP).unwrap();
    kill_process(server, Signal::KILL).unwrap();
    let answers = |image| of(&samples(page(&socket, "GET /metrics").split_once("\r\n\r\n").unwrap().1), "answers", image);
    assert!(eventually(|| answers("a.img") == Some(0)), "the dead server answers");
    assert_eq!(answers("b.img"), Some(1));
    kill_process(supervisor, Signal::CONT).unwrap();
    assert!(eventually(|| answers("a.img") == Some(1)), "a new server does not answer");

    // It takes its socket away; one that a killed process left is replaced.
    kill_process(Pid::from_child(&listener.0), Signal::TERM).unwrap();
    assert!(listener.0.wait().unwrap().success());
    assert!(!home.names().contains(&"metrics".to_owned()));
    drop(UnixListener::bind(&socket).unwrap());
    let _listener = Process(home.command(&["stats", "b.img", "--prometheus", "--listen", "metrics"]).spawn().unwrap());
    assert!(eventually(|| UnixStream::connect(&socket).is_ok()), "nobody listens");
    assert_eq!(of(&samples(page(&socket, "GET /metrics").split_once("\r\n\r\n").unwrap().1), "attached", "a.img"), None);

    home.complaint(2, &["stats"], "VOLUME");
    home.complaint(2, &["stats", "b.img", "--listen", "other"], "--prometheus");
    home.complaint(3, &["stats", "nowhere", "--prometheus", "--listen", "other"], "nowhere");
    home.write("file", "kept");
    home.complaint(1, &["stats", "--prometheus", "--listen", "file"], "cannot listen at file");
    home.complaint(1, &["stats", "--prometheus", "--listen", "no/such/place"], "cannot listen at no/such/place");
    assert_eq!(home.read("file"), b"kept");
}

#[test]
fn a_volume_is_probed_whether_it_is_attached_or_not() {
    let home = Home::new();
    home.says(0, &["create", IMAGE, "--size", "32M", "--label", LABEL]);
    let uuid = home.json(&["list", IMAGE])["volumes"][0]["uuid"].as_str().unwrap().to_owned();
    let probed = home.json(&["probe", IMAGE]);
    assert_eq!((probed["report"].as_str(), probed["uuid"].as_str(), probed["clean"].as_bool()), (Some("probe"), Some(&*uuid), Some(true)));
    let socket = home.attach(IMAGE, &[]);
    // The first write marks it as open.
    let mut client = Client::ready_for(&socket, true, "");
    client.write(0, 0, &[7; 4096]).unwrap();
    client.command(FLUSH, 0, 0, 0).unwrap();
    drop(client);
    let variables = home.says(0, &["probe", "--udev", IMAGE]);
    assert!(variables.lines().all(|line| line.starts_with("ID_FS_")), "{variables}");
    assert!(variables.contains("ID_FS_TYPE=onefold\n") && variables.contains(&format!("ID_FS_UUID={uuid}\n")), "{variables}");
    assert!(variables.contains("ID_FS_LABEL_ENC=my\\x20\\x22photos\\x22\n"), "{variables}");
    assert!(home.says(0, &["probe", IMAGE]).contains("it is attached, or"));
    home.says(0, &["detach", IMAGE]);

    home.write("letter", "Dear Sir or Madam,\n");
    home.complaint(3, &["probe", "letter"], "letter");
    home.complaint(3, &["probe", "nowhere"], "nowhere");
    home.complaint(2, &["probe", IMAGE, "--udev", "--json"], "--json");
    home.complaint(2, &["probe"], "<PATH>");
}

#[test]
fn the_version_is_that_of_the_program_and_of_its_format() {
    let home = Home::new();
    let version = home.json(&["version"]);
    assert_eq!(version["onefold"].as_str(), Some(env!("CARGO_PKG_VERSION")));
    home.says(0, &["create", IMAGE, "--size", "32M"]);
    assert_eq!(version["format_version"], home.json(&["probe", IMAGE])["format_version"]);
    assert!(home.says(0, &["--version"]).contains(version["onefold"].as_str().unwrap()));
}

/// A block that does not compress.
fn noise(block: u64) -> Vec<u8> {
    let mut state = block + 1;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..4096).map(|_| byte()).collect()
}

/// A second copy of blocks that were written in another order lies where the first one does.
#[test]
fn stats_counts_the_extents_of_an_attached_volume_as_check_does_later() {
    for mode in ["log", "ordered"] {
        let home = Home::new();
        home.says(0, &["create", IMAGE, "--size", "64M", "--commit-mode", mode]);
        home.complaint(3, &["stats", IMAGE, "--extents"], "`onefold check");
        let socket = home.attach(IMAGE, &[]);
        let mut client = Client::ready_for(&socket, true, "");
        let mut write = |at: u64, block: u64| client.write(0, at * 4096, &noise(block)).unwrap();
        (0..2000).for_each(|block| write(block, block));
        (0..1000).for_each(|block| write(3000 + block, 999 - block));
        client.command(FLUSH, 0, 0, 0).unwrap();
        let found = home.json(&["stats", IMAGE, "--extents"])["extents"].clone();
        home.complaint(2, &["stats", IMAGE, "--extents", "--prometheus"], "--prometheus");
        home.says(0, &["detach", IMAGE]);
        let counts = home.json(&["check", IMAGE]);
        assert_eq!(found["extents"], counts["counts"]["extents"], "{mode}: {found} {counts}");
        assert!(found["extents"].as_u64().is_some_and(|extents| extents > 1000), "{mode}: {found}");
        assert_eq!((&found["data_bytes"], &found["damaged_bytes"]), (&(3000 * 4096).into(), &0.into()), "{mode}");
    }
}
