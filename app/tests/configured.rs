//! Volumes that have a name and options in a folder like /etc/onefold.

mod common;

use common::home::Home;
use std::fs;

fn configure(home: &Home, name: &str, text: &str) {
    fs::create_dir_all(home.path("config")).unwrap();
    home.write(&format!("config/{name}.toml"), text);
}

fn memory(home: &Home, volume: &str) -> u64 {
    let parts = home.json(&["status", volume])["attached"]["condition"]["memory"].clone();
    parts.as_array().unwrap().iter().filter_map(|part| part["limit_bytes"].as_u64()).sum()
}

#[test]
fn a_name_stands_for_a_volume_and_its_options() {
    let home = Home::new();
    home.says(0, &["create", "disk.img", "--size", "32M", "--label", "of the disk"]);
    configure(&home, "photos", &format!("volume = \"{}\"\nnbd = true\nmemory = \"8M\"\n", home.path("disk.img")));
    assert!(home.says(0, &["attach", "photos"]).starts_with("nbd+unix"));
    let little = memory(&home, "photos");
    assert!(little <= 8 << 20, "{little}");
    assert_eq!(home.json(&["stats", "photos"])["attached"].as_bool(), Some(true));
    home.complaint(4, &["attach", "photos"], "is attached already");
    home.says(0, &["detach", "photos"]);
    home.says(0, &["attach", "photos", "--memory", "32M"]);
    assert!(memory(&home, "photos") > 2 * little, "what is typed replaces what the file has");
    home.says(0, &["detach", "photos"]);
    home.says(0, &["check", "photos"]);

    configure(&home, "of the disk", "volume = \"of the disk\"\nnbd = true\n");
    home.says(0, &["attach", "of the disk"]);
    home.says(0, &["detach", "of the disk"]);
}

#[test]
fn all_that_are_named_are_attached_and_a_wrong_one_does_not_keep_the_others_away() {
    let home = Home::new();
    let (out, err) = home.expect(0, &["attach", "--all"]);
    assert!(out.is_empty() && err.contains("has no file NAME.toml"), "{out}{err}");
    for name in ["a", "c"] {
        home.says(0, &["create", &format!("{name}.img"), "--size", "32M"]);
        configure(&home, name, &format!("volume = \"{}\"\nnbd = true\n", home.path(&format!("{name}.img"))));
    }
    configure(&home, "b", "volume = \"/nowhere/b.img\"\n");
    let (out, err) = home.expect(3, &["attach", "--all"]);
    assert_eq!(out.lines().filter(|line| line.starts_with("nbd+unix")).count(), 2, "{out}{err}");
    assert!(err.contains("/b.toml: /nowhere/b.img"), "{err}");
    configure(&home, "b", "volume = \"/nowhere/b.img\"\nmemroy = \"8M\"\n");
    let (out, err) = home.expect(2, &["attach", "--all"]);
    assert!(
        out.is_empty()
            && err.contains("a is attached already: nbd+unix")
            && err.contains("b.toml: 'memroy' is no option of a volume; a similar one is memory"),
        "{out}{err}"
    );
    for name in ["a", "c"] {
        home.says(0, &["detach", name]);
    }
}

/// In another folder the same word would mean another volume.
#[test]
fn a_name_is_not_that_of_a_file_which_happens_to_be_here() {
    let home = Home::new();
    home.says(0, &["create", "disk.img", "--size", "32M", "--label", "of the disk"]);
    home.says(0, &["create", "photos", "--size", "32M"]);
    configure(&home, "photos", &format!("volume = \"{}\"\nnbd = true\n", home.path("disk.img")));
    for verb in ["attach", "check", "stats"] {
        home.complaint(2, &[verb, "photos"], "Write ./photos for the file");
    }
    home.says(0, &["check", "./photos"]);
    assert!(home.says(0, &["attach", "--all"]).starts_with("nbd+unix"), "no word was typed, so nothing is ambiguous");
    home.says(0, &["detach", "of the disk"]);
    // No path, but a label that no volume has.
    configure(&home, "music", "volume = \"disk.img\"\nnbd = true\n");
    home.complaint(3, &["attach", "music"], "no volume is called 'disk.img'");
    fs::rename(home.path("photos"), home.path("elsewhere")).unwrap();
    home.says(0, &["attach", "photos"]);
    assert!(home.says(0, &["probe", "photos"]).contains("disk.img"));
    home.says(0, &["detach", "photos"]);
}

#[test]
fn a_wrong_file_is_named_with_what_is_wrong_in_it() {
    let home = Home::new();
    home.says(0, &["create", "disk.img", "--size", "32M"]);
    let volume = format!("volume = \"{}\"\n", home.path("disk.img"));
    for (text, what) in [
        (format!("{volume}memroy = \"8M\"\n"), "'memroy' is no option"),
        (format!("{volume}memory = \"much\"\n"), "invalid value 'much' for 'memory <SIZE>'"),
        (format!("{volume}memory = true\n"), "memory <SIZE>"),
        (format!("{volume}help = true\n"), "no option 'help'"),
        ("memory = \"8M\"\n".to_owned(), "no volume is named"),
        ("volume = [\n".to_owned(), "photos.toml"),
    ] {
        configure(&home, "photos", &text);
        home.complaint(2, &["attach", "photos"], what);
        home.complaint(2, &["attach", "photos"], "photos.toml");
        let (_, complaint) = home.expect(2, &["attach", "photos"]);
        assert!(
            complaint.lines().all(|line| line.contains("attach --help") || !line.contains("--")),
            "an option that nobody typed: {complaint}"
        );
    }
    home.complaint(2, &["attach", "--all", "photos"], "--all");
    home.complaint(2, &["attach"], "<VOLUME>");
}
