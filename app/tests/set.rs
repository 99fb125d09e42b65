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
fn sectors_become_smaller_at_any_time_and_larger_while_nothing_is_written() {
    let home = created();
    let sector = |home: &Home| home.json(&["status", IMAGE])["volume"]["sector_bytes"].as_u64();
    assert_eq!(sector(&home), Some(4096), "the default");
    home.says(0, &["set", IMAGE, "--sector", "512"]);
    home.says(0, &["set", IMAGE, "--sector", "4096"]);
    assert_eq!(sector(&home), Some(4096));
    let socket = home.attach(IMAGE, &[]);
    Client::ready_for(&socket, true, "").write(0, 0, &[7; 4096]).unwrap();
    home.says(0, &["detach", IMAGE]);
    home.says(0, &["set", IMAGE, "--sector", "512"]);
    assert_eq!(sector(&home), Some(512));
    home.complaint(5, &["set", IMAGE, "--sector", "4096"], "sectors of 512");
    home.complaint(2, &["set", IMAGE, "--sector", "1024"], "512 or 4096");
    assert!(opened(&home, IMAGE, &[]) == [7; 4096]);
    home.says(0, &["detach", IMAGE]);
}

#[test]
fn a_label_belongs_to_one_volume() {
    let home = created();
    home.complaint(2, &["create", "other", "--size", "32M", "--label", "photos"], "disk.img has that label already");
    assert!(!std::path::Path::new(&home.path("other")).exists());
    home.says(0, &["create", "other", "--size", "32M"]);
    home.complaint(2, &["set", "other", "--label", "photos"], "disk.img has that label already");
    home.says(0, &["set", IMAGE, "--label", "photos"]);
    home.says(0, &["create", IMAGE, "--force", "--label", "photos"]);
    home.says(0, &["attach", "--nbd", IMAGE]);
    home.complaint(2, &["set", "other", "--label", "photos"], "disk.img has that label already");
    home.says(0, &["detach", "photos"]);
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

/// Those for which `/etc/onefold` was the only place before.
#[test]
fn memory_compression_and_the_wait_for_room_have_defaults_too() {
    let home = created();
    let before = home.json(&["set", IMAGE])["defaults"].clone();
    assert_eq!(
        (&before["memory_bytes"], &before["compress"], &before["full_wait_ms"]),
        (&(64 << 20).into(), &"all".into(), &60_000.into())
    );
    // Bit 5 of the features that another program must know.
    let has_feature = || home.read(IMAGE)[32] & 32 != 0;
    assert!(!has_feature());
    let table = home.says(0, &["set", IMAGE, "--memory", "8M", "--compress", "off", "--when-full", "error"]);
    for (row, value) in [("default memory", "8 MiB"), ("default compress", "off"), ("default when full", "error")] {
        assert!(table.lines().any(|line| line.starts_with(row) && line.trim_end().ends_with(value)), "{row}: {table}");
    }
    assert!(has_feature());
    let attached = |options: &[&str], word: &str| {
        let socket = home.attach(IMAGE, options);
        let mut client = Client::ready_for(&socket, true, "");
        let packed = || home.json(&["stats", IMAGE])["packing"]["packed_blocks"].as_u64().unwrap();
        // On a machine that is busy a block may go out before it is compressed.
        for round in 0..20 {
            let lines = (0..4096).map(|line| format!("{word} {round:3} {line:5}\n").into_bytes()).collect::<Vec<_>>().concat();
            client.write(0, round * 65536, &lines[..65536]).unwrap();
            client.command(FLUSH, 0, 0, 0).unwrap();
            if packed() > 0 {
                break;
            }
        }
        let parts = home.json(&["status", IMAGE])["attached"]["condition"]["memory"].clone();
        let memory: u64 = parts.as_array().unwrap().iter().filter_map(|part| part["limit_bytes"].as_u64()).sum();
        let has_packed = packed() > 0;
        home.says(0, &["detach", IMAGE]);
        (memory <= 8 << 20, has_packed)
    };
    assert_eq!(attached(&[], "first"), (true, false));
    assert_eq!(attached(&["--memory", "32M", "--compress", "all"], "again"), (false, true), "what is typed comes first");
    home.complaint(2, &["set", IMAGE, "--memory", "1M"], "at least 2 MiB are needed");
    home.complaint(2, &["set", IMAGE, "--when-full", "wait=0"], "from 1 to 86400 seconds");
    // With the program's own ones the volume is as it was made, and programs that know no others serve it again.
    home.says(0, &["set", IMAGE, "--memory", "64M", "--compress", "all", "--when-full", "wait"]);
    assert_eq!(home.json(&["set", IMAGE])["defaults"], before);
    assert!(!has_feature(), "older programs serve it again");
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
