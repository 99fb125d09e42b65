//! The experience of an operator in unusual situations: files renamed or deleted, wrong names, readers that leave, logs, notices.

mod common;

use common::home::Home;
use common::nbd_client::*;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

const IMAGE: &str = "disk.img";

fn attached() -> Home {
    let home = Home::new();
    home.says(0, &["create", IMAGE, "--size", "32M", "--label", "mine"]);
    home.attach(IMAGE, &[]);
    home
}

#[test]
fn a_renamed_store_is_found_by_its_new_name() {
    let home = attached();
    std::fs::rename(home.path(IMAGE), home.path("moved.img")).unwrap();
    for name in ["moved.img", &home.path("moved.img"), IMAGE, "mine"] {
        let status = home.json(&["status", name]);
        assert_eq!(status["path"].as_str(), Some(home.path("moved.img").as_str()), "{name}");
        assert!(status["volume"]["uuid"].is_string() && status["deleted"].as_bool() == Some(false), "{status:#}");
    }
    assert_eq!(home.json(&["list"])["volumes"][0]["path"].as_str(), Some(home.path("moved.img").as_str()));
    // Another file in its old place is not the volume.
    std::fs::copy(home.path("moved.img"), home.path(IMAGE)).unwrap();
    home.complaint(3, &["detach", IMAGE], "is not attached");
    home.says(0, &["detach", "moved.img"]);
    assert_eq!(home.json(&["check", "moved.img"])["clean"].as_bool(), Some(true));
}

#[test]
fn a_deleted_store_is_told_and_spared() {
    let home = attached();
    std::fs::remove_file(home.path(IMAGE)).unwrap();
    for name in [IMAGE, &home.path(IMAGE), "mine"] {
        assert!(home.says(0, &["status", name]).contains(&format!("{} (deleted)", home.path(IMAGE))), "{name}");
    }
    assert!(home.says(0, &["list"]).contains("disk.img (deleted)"));
    assert_eq!(home.json(&["list"])["volumes"][0]["deleted"].as_bool(), Some(true));
    let (_, complaint) = home.expect(5, &["detach", "mine"]);
    assert!(complaint.contains("deleted") && complaint.contains("--force"), "{complaint}");
    // Follow the message.
    let open = complaint.split_whitespace().find(|word| word.starts_with("/proc/")).expect("it says how to keep it");
    std::fs::copy(open, home.path("kept.img")).unwrap();
    assert!(home.expect(0, &["detach", "mine", "--force"]).1.contains("its content goes"));
    home.attach("kept.img", &[]);
    home.says(0, &["detach", "kept.img"]);
}

#[test]
fn a_directory_is_called_one() {
    let home = Home::new();
    std::fs::create_dir(home.path("folder")).unwrap();
    for verb in ["attach", "status", "check", "dump"] {
        home.complaint(3, &[verb, "folder"], "folder is a directory");
    }
}

#[test]
fn help_says_what_is_required() {
    let home = Home::new();
    let help = home.says(0, &["detach", "--help"]);
    assert!(help.contains("<VOLUME>") && !help.contains("[VOLUME]"), "{help}");
    home.complaint(2, &["detach"], "<VOLUME>");
}

#[test]
fn the_size_of_an_attached_volume_is_listed() {
    let home = attached();
    let status = home.json(&["status", IMAGE]);
    let listed = &home.json(&["list"])["volumes"][0]["logical_bytes"];
    assert!(listed.is_u64() && listed == &status["volume"]["logical_bytes"], "{listed} {status:#}");
}

#[test]
fn an_orderly_end_leaves_nothing_in_the_run_directory() {
    let home = attached();
    let log = |home: &Home| std::fs::read_dir(home.path("run")).unwrap().any(|entry| entry.unwrap().path().extension().unwrap() == "log");
    assert!(log(&home));
    home.says(0, &["detach", IMAGE]);
    let left: Vec<_> = std::fs::read_dir(home.path("run")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
    // A killed server leaves its log.
    home.attach(IMAGE, &[]);
    home.kill(IMAGE);
    home.says(0, &["list"]);
    assert!(log(&home));
}

#[test]
fn a_reader_that_leaves_ends_a_watch_quietly() {
    let home = attached();
    for verb in [&["stats", IMAGE][..], &["status", IMAGE], &["list"]] {
        let mut command = home.command(verb);
        let mut watch = command.arg("--watch=1").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(watch.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let output = watch.wait_with_output().unwrap();
        assert!(!first.is_empty() && output.status.success() && output.stderr.is_empty(), "{verb:?}: {output:?}");
    }
}

/// Warnings in a server's log are in `status`, with their dates, and those that have ended are not.
#[test]
fn warnings_stand_among_the_notices() {
    let home = attached();
    // There are more clients than the server accepts.
    let socket = home.json(&["status", IMAGE])["attached"]["location"].as_str().unwrap().split_once("socket=").unwrap().1.to_owned();
    let clients: Vec<_> = (0..20).map(|_| std::os::unix::net::UnixStream::connect(&socket).unwrap()).collect();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let status = home.json(&["status", IMAGE]);
        let notices: Vec<&str> = status["attached"]["condition"]["notices"].as_array().unwrap().iter().filter_map(|n| n.as_str()).collect();
        let serves = notices.iter().any(|line| line.ends_with("serving"));
        if let Some(line) = notices.iter().find(|line| line.contains("a client was sent away")).filter(|_| serves) {
            assert!(line.starts_with("20") && line.contains(" UTC: "), "{line}");
            assert!(notices.iter().all(|line| !line.contains("opening:")), "{notices:?}");
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{notices:?}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    drop(clients);
}

/// Makes distinct blocks that do not compress.
fn noise(seed: u64, blocks: usize) -> Vec<u8> {
    let mut bytes = vec![0; blocks * 4096];
    common::Dice::new(seed).fill(&mut bytes);
    bytes
}

/// Returns the statistics as soon as all blocks are counted.
fn counted(home: &Home) -> serde_json::Value {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let stats = home.json(&["stats", "mine"]);
        if !stats["saved"].is_null() {
            return stats;
        }
        assert!(std::time::Instant::now() < deadline, "{stats:#}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

const MODES: [&str; 2] = ["log", "ordered"];

#[test]
fn stats_begin_with_what_people_look_for() {
    for mode in MODES {
        let home = Home::new();
        home.says(0, &["create", IMAGE, "--size", "64M", "--label", "mine", "--commit-mode", mode]);
        assert!(home.says(0, &["stats", "mine"]).starts_with("saved           nothing is stored\n"));
        let socket = home.attach(IMAGE, &[]);
        let mut client = Client::ready_for(&socket, true, "");
        let content = noise(9, 1024);
        for at in [0, 16 << 20, 32 << 20, 48 << 20] {
            client.write(0, at, &content).unwrap();
        }
        client.command(FLUSH, 0, 0, 0).unwrap();
        let stats = counted(&home);
        assert_eq!(stats["saved"]["logical_bytes"].as_u64(), Some(16 << 20), "{stats:#}");
        let percent = stats["saved"]["percent"].as_f64().unwrap();
        assert!((70.0..=75.0).contains(&percent), "{percent}");
        let table = home.says(0, &["stats", "mine"]);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].starts_with("saved") && lines[0].contains(" % (16 MiB of clients' blocks : "), "{table}");
        assert!(lines[1].starts_with("available") && lines[1].ends_with("for new content"), "{table}");
        assert!(lines[2].starts_with("since creation") && lines[2].contains("write ratio 0."), "{table}");
        let efficiency = lines.iter().find(|line| line.starts_with("efficiency")).unwrap();
        assert!(efficiency.contains(" % of the writes that the duplicates found could save"), "{efficiency}");
        assert!(lines.iter().any(|line| line.starts_with("space") && line.contains("4 MiB shared by duplicates")), "{table}");
        drop(client);
        home.says(0, &["detach", "mine"]);

        // The content and the history of a volume that is not attached are known as well.
        let detached = home.json(&["stats", "mine"]);
        assert_eq!(detached["attached"].as_bool(), Some(false));
        assert_eq!(detached["saved"]["logical_bytes"], stats["saved"]["logical_bytes"], "{detached:#}");
        assert_eq!(detached["lifetime"]["client_units"].as_u64(), Some(4096), "{detached:#}");
        assert!(detached["available_bytes"].as_u64() > Some(50 << 20), "{detached:#}");
        let table = home.says(0, &["stats", "mine"]);
        assert!(table.starts_with("saved           75 % (") && table.contains("It is not attached"), "{table}");
        let listed = &home.json(&["list", "mine"])["volumes"][0];
        assert!(listed["location"].is_null() && listed["logical_bytes"].is_u64(), "{listed:#}");
        home.says(3, &["list", "none"]);

        // A count that cannot be read is not guessed.
        let extents = &home.json(&["dump", "mine"])["extents"];
        let refs = extents.as_array().unwrap().iter().find(|extent| extent["region"] == "refs").unwrap()["at"].as_u64().unwrap();
        let store = std::fs::File::options().write(true).open(home.path(IMAGE)).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&store, &[0xA5; 512], refs).unwrap();
        assert!(home.says(0, &["stats", "mine"]).starts_with("saved           not known: some counts of links are lost"));
        assert!(home.json(&["stats", "mine"])["saved"].is_null());
    }
}

/// Blocks with several links hold duplicates, or neighbours in a pack.
#[test]
fn neighbours_in_packs_are_told_from_duplicates() {
    let home = attached();
    let socket = home.json(&["status", IMAGE])["attached"]["location"].as_str().unwrap().split_once("socket=").unwrap().1.to_owned();
    let mut client = Client::ready_for(std::path::Path::new(&socket), true, "");
    let mut content = noise(1, 512);
    content.chunks_mut(4096).for_each(|block| block[256..].fill(7));
    client.write(0, 0, &content).unwrap();
    client.command(FLUSH, 0, 0, 0).unwrap();
    let stats = counted(&home);
    assert!(stats["packing"]["packs"].as_u64() > Some(10), "{stats:#}");
    let table = home.says(0, &["stats", "mine"]);
    let space = table.lines().find(|line| line.starts_with("space")).unwrap();
    assert!(space.contains("shared (at least 0 B by duplicates, up to ") && space.contains(" by blocks compressed together)"), "{space}");
}

/// The loss of the lifetime ledger by a kill is bounded, and the bound is shown; the savings are known again after the next opening.
#[test]
fn the_lifetime_ledger_survives_a_kill() {
    for mode in MODES {
        let home = Home::new();
        home.says(0, &["create", IMAGE, "--size", "32M", "--label", "mine", "--commit-mode", mode]);
        let socket = home.attach(IMAGE, &[]);
        let mut client = Client::ready_for(&socket, true, "");
        let contents = [noise(1, 2048), noise(2, 2048)];
        for round in 0..10 {
            client.write(0, 0, &contents[round % 2]).unwrap();
            client.command(FLUSH, 0, 0, 0).unwrap();
        }
        let lived = |stats: &serde_json::Value| stats["lifetime"]["client_units"].as_u64().unwrap();
        assert_eq!(lived(&home.json(&["stats", "mine"])), 10 * 2048);
        home.kill("mine");
        drop(client);

        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !home.json(&["list", "mine"])["volumes"][0]["location"].is_null() {
            assert!(std::time::Instant::now() < deadline);
        }
        let killed = home.json(&["stats", "mine"]);
        assert!(killed["attached"].as_bool() == Some(false) && killed["saved"].is_null(), "{killed:#}");
        // This is 64 MiB.
        let kept = lived(&killed);
        assert!((16_384..10 * 2048).contains(&kept), "{mode}: {kept}");
        let table = home.says(0, &["stats", "mine"]);
        assert!(table.starts_with("saved           not known: it was not closed in order"), "{table}");
        assert!(table.lines().nth(2).unwrap().ends_with("(each kill may have taken about the last 64 MiB of clients)"), "{table}");

        let socket = home.attach(IMAGE, &[]);
        Client::ready_for(&socket, true, "").write(0, 16 << 20, &contents[0]).unwrap();
        assert_eq!(lived(&counted(&home)), kept + 2048, "{mode}");
        home.says(0, &["detach", "mine"]);
        assert_eq!(lived(&home.json(&["stats", "mine"])), kept + 2048, "{mode}");
    }
}

/// This holds whatever other content is shared.
#[test]
fn what_is_trimmed_is_available_at_once() {
    for mode in MODES {
        let home = Home::new();
        home.says(0, &["create", IMAGE, "--size", "64M", "--label", "mine", "--commit-mode", mode]);
        let socket = home.attach(IMAGE, &[]);
        let mut client = Client::ready_for(&socket, true, "");
        for at in [32 << 20, 48 << 20] {
            client.write(0, at, &noise(1, 1024)).unwrap();
        }
        client.command(FLUSH, 0, 0, 0).unwrap();
        let before = counted(&home)["available_bytes"].as_u64().unwrap();
        client.write(0, 0, &noise(2, 4096)).unwrap();
        client.command(FLUSH, 0, 0, 0).unwrap();
        let full = counted(&home)["available_bytes"].as_u64().unwrap();
        assert!(full + (16 << 20) <= before, "{mode}: {before} {full}");
        client.command(TRIM, 0, 0, 16 << 20).unwrap();
        client.command(FLUSH, 0, 0, 0).unwrap();
        let stats = counted(&home);
        let after = stats["available_bytes"].as_u64().unwrap();
        assert!(after + (1 << 20) >= before, "{mode}: {before} {full} {after} {stats:#}");
        assert_eq!(stats["saved"]["logical_bytes"].as_u64(), Some(8 << 20), "{mode}: {stats:#}");
        drop(client);
        home.says(0, &["detach", "mine"]);
    }
}
