//! A volume as other programs see it: Prometheus' text, and the variables that udev imports.

mod common;

use common::home::Home;
use common::nbd_client::*;
use std::collections::BTreeMap;

const IMAGE: &str = "disk.img";
const LABEL: &str = "my \"photos\"";

/// Returns the value of each sample, by its name and labels; all lines have to follow the format.
fn samples(text: &str) -> BTreeMap<String, u64> {
    let (mut found, mut family) = (BTreeMap::new(), String::new());
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').expect("a help text");
            assert!(help.ends_with('.'), "{line}");
            family = name.to_owned();
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let kind = kind.strip_prefix(&format!("{family} ")).unwrap_or_else(|| panic!("{line} after the help of {family}"));
            assert_eq!(kind == "counter", family.ends_with("_total"), "{line}");
        } else {
            let (name, value) = line.rsplit_once(' ').expect("a value");
            assert!(name.starts_with(&format!("{family}{{store=\"")), "{line} below {family}");
            assert!(name.contains("label=\"my \\\"photos\\\"\""), "{line}");
            let before = found.insert(name.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")));
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
