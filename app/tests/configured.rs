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
    assert_eq!(home.says(0, &["attach", "--all"]), "", "nothing is named");
    for name in ["a", "c"] {
        home.says(0, &["create", &format!("{name}.img"), "--size", "32M"]);
        configure(&home, name, &format!("volume = \"{}\"\nnbd = true\n", home.path(&format!("{name}.img"))));
    }
    configure(&home, "b", "volume = \"/nowhere/b.img\"\n");
    let (out, err) = home.expect(3, &["attach", "--all"]);
    assert_eq!(out.lines().filter(|line| line.starts_with("nbd+unix")).count(), 2, "{out}{err}");
    assert!(err.contains("/nowhere/b.img"), "{err}");
    let (out, _) = home.expect(3, &["attach", "--all"]);
    assert_eq!(out, "", "they are attached already");
    for name in ["a", "c"] {
        home.says(0, &["detach", name]);
    }
}

#[test]
fn a_wrong_file_is_named_with_what_is_wrong_in_it() {
    let home = Home::new();
    home.says(0, &["create", "disk.img", "--size", "32M"]);
    let volume = format!("volume = \"{}\"\n", home.path("disk.img"));
    for (text, what) in [
        (format!("{volume}memroy = \"8M\"\n"), "--memroy"),
        (format!("{volume}memory = \"much\"\n"), "much"),
        ("memory = \"8M\"\n".to_owned(), "no volume is named"),
        ("volume = [\n".to_owned(), "photos.toml"),
    ] {
        configure(&home, "photos", &text);
        home.complaint(2, &["attach", "photos"], what);
        home.complaint(2, &["attach", "photos"], "photos.toml");
    }
    home.complaint(2, &["attach", "--all", "photos"], "--all");
    home.complaint(2, &["attach"], "<VOLUME>");
}
