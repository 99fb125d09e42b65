//! `estimate`, as its users see it, beside a volume that gets the same content.

mod common;

use common::home::Home;
use common::nbd_client::*;
use std::fs;
use std::path::Path;

/// Text that compresses, another one for each number.
fn text(number: usize) -> Vec<u8> {
    let line = |at| format!("{number} has line {at}, which says little but that {number} times {at} is {}\n", number * at);
    let mut text: Vec<u8> = (0..).map(line).flat_map(String::into_bytes).take(4096).collect();
    text.truncate(4096);
    text
}

/// Noise, another one for each number.
fn noise(number: usize) -> Vec<u8> {
    let mut state = number as u64 + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..4096).map(|_| next()).collect()
}

/// Fills a tree, and returns all of its blocks in the order of its files' names.
fn tree(top: &Path) -> Vec<u8> {
    let files: [(&str, Vec<u8>); 4] = [
        ("a.txt", (0..400).flat_map(text).collect()),
        ("b.png", (0..300).flat_map(noise).collect()),
        ("c.txt", (300..500).flat_map(text).collect()),
        ("d", [noise(7), vec![0; 40 * 4096], b"tail".to_vec()].concat()),
    ];
    fs::create_dir_all(top).unwrap();
    let mut all = Vec::new();
    for (name, mut content) in files {
        fs::write(top.join(name), &content).unwrap();
        content.resize(content.len().next_multiple_of(4096), 0);
        all.append(&mut content);
    }
    fs::hard_link(top.join("a.txt"), top.join("z")).unwrap();
    all
}

#[test]
fn what_is_foretold_is_saved() {
    let home = Home::new();
    let content = tree(Path::new(&home.path("tree")));
    let foretold = home.json(&["estimate", "tree/a.txt", "tree/b.png", "tree/c.txt", "tree/d"]);
    assert_eq!(
        (foretold["report"].as_str(), foretold["files"].as_u64(), foretold["unread"].as_u64()),
        (Some("estimate"), Some(4), Some(0))
    );
    assert_eq!((foretold["logical_bytes"].as_u64(), foretold["zero_bytes"].as_u64()), (Some(902 * 4096), Some(40 * 4096)));
    // Of 902 blocks, 101 are there already.
    assert_eq!(foretold["duplicate_percent"].as_f64(), Some(100.0 * 101.0 / 902.0));
    assert_eq!((foretold["sampled"].as_u64(), foretold["error_percent"].as_f64()), (Some(1), Some(0.0)));
    let kind = |name: &str| foretold["kinds"].as_array().unwrap().iter().find(|kind| kind["kind"] == name).unwrap().clone();
    assert_eq!(kind(".png")["saved_percent"].as_f64(), Some(0.0));
    assert_eq!(kind(".txt")["duplicate_percent"].as_f64(), Some(100.0 / 6.0));

    // The same as a tree has what ext4 adds: a directory, and the inodes of the tree and of five names, each twice.
    let tree = home.json(&["estimate", "tree"]);
    assert_eq!((tree["files"].as_u64(), tree["logical_bytes"].as_u64()), (Some(4), Some(906 * 4096)));
    assert!(tree["kinds"].as_array().unwrap().iter().any(|kind| kind["kind"] == "(ext4)"), "{tree:#}");

    home.says(0, &["create", "disk.img", "--size", "64M"]);
    // Each request is an epoch, so that no block goes unpacked because a busy machine cannot keep pace.
    let socket = home.attach("disk.img", &["--persistence", "strong"]);
    let mut client = Client::ready_for(&socket, true, "");
    for (number, piece) in content.chunks(1 << 20).enumerate() {
        client.write(0, (number << 20) as u64, piece).unwrap();
    }
    client.command(FLUSH, 0, 0, 0).unwrap();
    drop(client);
    home.says(0, &["detach", "disk.img"]);
    let saved = home.json(&["stats", "disk.img"])["saved"].clone();
    assert_eq!(saved["logical_bytes"], foretold["logical_bytes"]);
    let (saved, foretold) = (saved["percent"].as_f64().unwrap(), foretold["saved_percent"].as_f64().unwrap());
    assert!((saved - foretold).abs() < 1.0, "{saved} % are saved, and {foretold} % were foretold");
}

#[test]
fn a_table_tells_people_and_names_what_it_could_not_read() {
    let home = Home::new();
    tree(Path::new(&home.path("tree")));
    let table = home.says(0, &["estimate", "tree", "tree/b.png"]);
    for part in ["saved ", "duplicates ", "packed ", "blocks of zeros  160 KiB", "--memory 2M", "store ", "kind ", ".png "] {
        assert!(table.contains(part), "{part} in {table}");
    }
    fs::create_dir(home.path("empty")).unwrap();
    assert!(home.says(0, &["estimate", "empty"]).contains("nothing: there is no content"));
    home.complaint(3, &["estimate", "nowhere"], "nowhere");
    home.complaint(2, &["estimate", "/dev/null"], "Name a file, a directory or a block device");
    home.complaint(2, &["estimate"], "PATH");
    home.complaint(2, &["estimate", "tree", "--memory", "1M"], "'1M' is too little: give at least");
    home.complaint(2, &["estimate", "tree", "--memory", "much"], "'much' is no size");
}
