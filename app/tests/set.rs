//! `set`: the label and the UUID of a volume, and the defaults of its attach options.

mod common;

use common::home::Home;
use common::nbd_client::*;

const IMAGE: &str = "disk.img";

fn created() -> Home {
    let home = Home::new();
    home.says(0, &["create", IMAGE, "--size", "32M", "--label", "photos"]);
    home
}

/// Attaches, and reads the first block. The volume has been opened when that is answered.
fn opened(home: &Home, volume: &str, options: &[&str]) -> Vec<u8> {
    let socket = home.attach(volume, options);
    Client::ready_for(&socket, true, "").read(0, 4096).unwrap()
}

#[test]
fn a_new_label_is_the_name_of_the_volume_and_changes_nothing_else() {
    let home = created();
    let socket = home.attach(IMAGE, &[]);
    Client::ready_for(&socket, true, "").write(0, 0, &[7; 4096]).unwrap();
    home.says(0, &["detach", IMAGE]);
    let table = home.says(0, &["set", "photos", "--label", "holiday"]);
    assert!(table.contains("label") && table.contains("holiday"), "{table}");
    home.complaint(3, &["status", "photos"], "no volume is called 'photos'");
    assert!(opened(&home, "holiday", &[]) == [7; 4096]);
    home.says(0, &["detach", "holiday"]);
    home.says(0, &["check", "--data", "holiday"]);
    home.says(0, &["set", "holiday", "--label", ""]);
    home.complaint(3, &["status", "holiday"], "no volume is called 'holiday'");
    assert_eq!(home.json(&["status", IMAGE])["volume"]["label"], "");
}

#[test]
fn all_copies_of_the_superblock_have_it() {
    let home = created();
    home.says(0, &["set", IMAGE, "--label", "holiday"]);
    let whole = home.read(IMAGE);
    let end = whole.len();
    let copies = [0, 4096, end - 8192, end - 4096];
    for kept in copies {
        let mut bytes = whole.clone();
        copies.into_iter().filter(|&at| at != kept).for_each(|at| bytes[at..at + 4096].fill(0));
        home.write(IMAGE, bytes);
        assert_eq!(home.json(&["status", IMAGE])["volume"]["label"], "holiday", "the copy at {kept}");
    }
}

#[test]
fn a_default_holds_for_the_next_attachment_unless_it_names_another() {
    let home = created();
    let before = home.json(&["set", IMAGE]);
    assert_eq!((&before["changed"], &before["defaults"]["commit_mode"]), (&false.into(), &"log".into()));
    let after = home.json(&["set", IMAGE, "--commit-mode", "ordered", "--commit-period", "700", "--verify-reads", "off"]);
    let mut expected = before["defaults"].clone();
    expected["commit_mode"] = "ordered".into();
    expected["commit_period_ms"] = 700.into();
    expected["verify_reads"] = false.into();
    assert_eq!((&after["changed"], &after["defaults"]), (&true.into(), &expected));
    assert_eq!(after["volume"]["label"], "photos");
    let has_log = |options: &[&str]| {
        opened(&home, IMAGE, options);
        let places = home.json(&["stats", IMAGE])["space"]["log_place_blocks"].as_u64();
        home.says(0, &["detach", IMAGE]);
        places.is_some_and(|blocks| blocks > 0)
    };
    assert_eq!((has_log(&[]), has_log(&["--commit-mode", "log"])), (false, true));
}

#[test]
fn what_cannot_be_set_is_refused_and_nothing_changes() {
    let home = created();
    let before = home.read(IMAGE);
    home.complaint(2, &["set", IMAGE, "--label", "a/b"], "neither slashes nor control characters");
    home.complaint(2, &["set", IMAGE, "--label", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"], "it would be taken for a UUID");
    home.complaint(2, &["set", IMAGE, "--commit-mode", "fast"], "ordered, log");
    home.complaint(2, &["set", IMAGE, "--commit-period", "31536000001"], "31536000001");
    home.complaint(3, &["set", "nowhere", "--label", "x"], "no volume is called 'nowhere'");
    home.write("plain.img", vec![1; 1 << 20]);
    home.complaint(3, &["set", "plain.img", "--label", "x"], "there is no Onefold volume on it");
    assert!(home.read(IMAGE) == before);
    opened(&home, IMAGE, &[]);
    home.complaint(4, &["set", IMAGE, "--label", "x"], "is attached, at");
    // It may be looked at.
    assert_eq!(home.json(&["set", "photos"])["volume"]["label"], "photos");
    home.kill(IMAGE);
    home.complaint(6, &["set", IMAGE, "--label", "x"], "the volume was not closed in order");
    // A store that was moved since then is no copy: its journal may have more than it.
    home.write("moved.img", home.read(IMAGE));
    std::fs::rename(home.path(IMAGE), home.path("away")).unwrap();
    home.complaint(6, &["set", "moved.img", "--label", "x"], "the volume was not closed in order");
    std::fs::rename(home.path("away"), home.path(IMAGE)).unwrap();
    assert_eq!(home.json(&["status", IMAGE])["volume"]["label"], "photos");
}

/// The copy has the pages, the log and the content of its original, and yet it is another volume.
#[test]
fn a_copy_with_a_new_uuid_is_attached_beside_its_original() {
    const COPY: &str = "copy.img";
    for options in [&["--commit-mode", "log"][..], &["--commit-mode", "ordered", "--guard=1"]] {
        let home = Home::new();
        home.says(0, &[&["create", IMAGE, "--size", "32M"], options].concat());
        let socket = home.attach(IMAGE, &[]);
        let mut client = Client::ready_for(&socket, true, "");
        (0..300_u64).for_each(|block| client.write(0, block * 4096, &[block as u8; 4096]).unwrap());
        drop(client);
        home.says(0, &["detach", IMAGE]);
        home.write(COPY, home.read(IMAGE));
        let made = home.json(&["status", COPY])["volume"]["uuid"].clone();

        let socket = home.attach(IMAGE, &[]);
        home.complaint(4, &["attach", "--nbd", COPY], "--uuid new` gives it its own");
        let set = home.json(&["set", COPY, "--uuid", "new"]);
        assert_ne!(set["volume"]["uuid"], made, "{set}");
        let uuid = set["volume"]["uuid"].as_str().unwrap().to_owned();
        let dump = home.json(&["dump", COPY]);
        assert_eq!((&dump["uuid"], &dump["made_as"]), (&set["volume"]["uuid"], &made));
        let other = home.attach(&uuid, &[]);
        for (socket, fill) in [(&socket, 1), (&other, 2)] {
            let mut client = Client::ready_for(socket, true, "");
            for block in 0..300_u64 {
                assert!(client.read(block * 4096, 4096).unwrap() == [block as u8; 4096], "{options:?}");
            }
            client.write(0, 0, &[fill; 4096]).unwrap();
            client.command(FLUSH, 0, 0, 0).unwrap();
        }
        home.kill(COPY);
        assert!(opened(&home, COPY, &[]) == [2; 4096], "{options:?}: what was flushed is there after a kill");
        for (volume, fill) in [(IMAGE, 1), (COPY, 2)] {
            home.says(0, &["detach", volume]);
            home.says(0, &["check", "--data", volume]);
            assert!(opened(&home, volume, &[]) == [fill; 4096], "{options:?}");
            home.says(0, &["detach", volume]);
        }
        home.says(0, &["set", COPY, "--uuid", made.as_str().unwrap()]);
        assert_eq!(home.json(&["dump", COPY])["made_as"], serde_json::Value::Null);
        home.says(0, &["check", "--data", COPY]);
    }
}

/// A snapshot of an attached volume: what was synced is on it, in pages or in the log.
#[test]
fn a_copy_of_an_attached_volume_is_attached_beside_it() {
    const COPY: &str = "copy.img";
    for mode in ["log", "ordered"] {
        let home = Home::new();
        home.says(0, &["create", IMAGE, "--size", "32M", "--commit-mode", mode]);
        let socket = home.attach(IMAGE, &[]);
        let mut client = Client::ready_for(&socket, true, "");
        (0..300_u64).for_each(|block| client.write(0, block * 4096, &[block as u8; 4096]).unwrap());
        client.command(FLUSH, 0, 0, 0).unwrap();
        home.write(COPY, home.read(IMAGE));
        client.write(0, 0, &[77; 4096]).unwrap();
        let set = home.json(&["set", COPY, "--uuid", "new", "--label", "snapshot"]);
        let other = home.attach(set["volume"]["uuid"].as_str().unwrap(), &[]);
        let mut copied = Client::ready_for(&other, true, "");
        for block in 0..300_u64 {
            assert!(copied.read(block * 4096, 4096).unwrap() == [block as u8; 4096], "{mode}: block {block}");
        }
        assert!(client.read(0, 4096).unwrap() == [77; 4096], "{mode}: the original goes on");
        drop((client, copied));
        for volume in [IMAGE, COPY] {
            home.says(0, &["detach", volume]);
            home.says(0, &["check", "--data", volume]);
        }
    }
}

#[test]
fn what_is_no_uuid_is_refused() {
    let home = created();
    let before = home.read(IMAGE);
    for (typed, wanted) in [("photos", "not a UUID"), ("00000000-0000-0000-0000-000000000000", "zeros"), ("", "not a UUID")] {
        home.complaint(2, &["set", IMAGE, "--uuid", typed], wanted);
    }
    assert!(home.read(IMAGE) == before);
}
