//! Rules of `onefold hint`: kept in the volume, changed offline and online, and what they do to what real programs write.

mod common;

use common::home::Home;
use common::nbd_client::{Client, FLUSH};
use common::{Dice, have, may_mount, run, skipped};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const IMAGE: &str = "volume";
const PATIENCE: Duration = Duration::from_secs(20);

/// A volume with a file system on root's default road.
struct Mounted {
    home: Home,
    device: String,
}

impl Mounted {
    /// None, with a word, where that cannot be had.
    fn new(test: &str, options: &[&str]) -> Option<Self> {
        if !may_mount(test) || !have(test, &["mkfs.ext4", "mount", "umount"]) {
            return None;
        }
        let home = Home::new();
        home.says(0, &["create", IMAGE, "--size", "300M"]);
        let device = home.says(0, &[&["attach", IMAGE], options].concat()).trim().to_owned();
        if !device.starts_with("/dev/") {
            skipped(test, "there is no front-end with a block device");
            return None;
        }
        let mounted = Self { home, device };
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-E", "nodiscard"]).arg(&mounted.device));
        std::fs::create_dir(mounted.home.path("mnt")).unwrap();
        run(Command::new("mount").arg(&mounted.device).arg(mounted.home.path("mnt")));
        Some(mounted)
    }

    /// Waits until the server knows who writes; false, with a word, where this kernel does not tell.
    fn observes(&self, test: &str) -> bool {
        let begin = Instant::now();
        loop {
            let observer = self.hints()["observer"].clone();
            match (observer["means"].as_str(), observer["reason"].as_str()) {
                (Some("bpf"), _) => return true,
                (_, Some(reason)) => {
                    skipped(test, reason);
                    return false;
                }
                _ => assert!(begin.elapsed() < PATIENCE, "nothing is observed: {observer}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn stats(&self) -> Value {
        self.home.json(&["stats", IMAGE])
    }

    fn hints(&self) -> Value {
        self.stats()["hints"].clone()
    }

    /// Writes a file durably.
    fn write(&self, name: &str, bytes: &[u8]) {
        let file = Path::new(&self.home.path("mnt")).join(name);
        std::fs::write(&file, bytes).unwrap();
        std::fs::File::open(&file).unwrap().sync_all().unwrap();
    }

    /// The new blocks and the duplicates that a write of a file brings.
    fn counted(&self, name: &str, bytes: &[u8]) -> (u64, u64) {
        let dedup = || {
            let dedup = self.stats()["dedup"].clone();
            [&dedup["new_blocks"], &dedup["duplicates"]].map(|count| count.as_u64().unwrap())
        };
        let before = dedup();
        self.write(name, bytes);
        let after = dedup();
        (after[0] - before[0], after[1] - before[1])
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.home.path("mnt")).status();
    }
}

fn noise(seed: u64, blocks: usize) -> Vec<u8> {
    let mut bytes = vec![0; blocks * 4096];
    Dice::new(seed).fill(&mut bytes);
    bytes
}

#[test]
fn rules_are_kept_in_the_volume() {
    let home = Home::new();
    home.says(0, &["create", IMAGE, "--size", "64M"]);
    let added = home.json(&["hint", "add", IMAGE, "nodedup,nocompress", "--file", "*.raw"]);
    assert_eq!(added["added"], serde_json::json!([1]));
    home.says(0, &["hint", "add", IMAGE, "prefetch", "--lbn", "0-999", "--meta"]);
    // Whoever serves the volume has them, and changes them.
    home.attach(IMAGE, &[]);
    let conditions = |home: &Home| {
        let rules = home.json(&["hint", "list", IMAGE])["rules"].clone();
        let of = |rule: &Value| format!("{} {}", rule["number"], rule["conditions"].as_str().unwrap());
        rules.as_array().unwrap().iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(conditions(&home), ["1 --file *.raw", "2 --meta --lbn 0-999"]);
    home.says(0, &["hint", "remove", IMAGE, "1"]);
    home.says(0, &["hint", "add", IMAGE, "noindex", "--stream", "database", "--process", "postgres"]);
    home.says(0, &["hint", "remove", IMAGE, "--default"]);
    home.kill(IMAGE);
    let left = ["2 --meta --lbn 0-999", "3 --process postgres"];
    home.attach(IMAGE, &[]);
    assert_eq!(conditions(&home), left, "after a kill of both processes");
    let streams = |home: &Home| home.json(&["hint", "list", IMAGE])["streams"].clone();
    assert_eq!(streams(&home), serde_json::json!(["database"]), "a name keeps its number");
    assert_eq!(home.json(&["hint", "list", IMAGE])["spared_blocks"], Value::Null);
    home.says(0, &["detach", IMAGE]);
    assert_eq!(conditions(&home), left);
    home.says(0, &["hint", "add", IMAGE, "--default"]);
    let table = home.says(0, &["hint", "list", IMAGE]);
    assert!(table.contains("names say that they are compressed") && table.contains("--process postgres"), "{table}");
    home.says(0, &["check", "--data", IMAGE]);
    assert!(home.json(&["set", IMAGE, "--uuid", "new"])["changed"].as_bool().unwrap());
    assert_eq!(conditions(&home), left, "a volume of another UUID has them, too");
}

#[test]
fn what_makes_no_sense_changes_nothing() {
    let home = Home::new();
    home.says(0, &["create", IMAGE, "--size", "64M"]);
    let before = home.read(IMAGE);
    home.complaint(2, &["hint", "add", IMAGE, "nodedup"], "matches nothing");
    home.complaint(2, &["hint", "add", IMAGE, "nodupe", "--meta"], "invalid value 'nodupe'");
    home.complaint(2, &["hint", "add", IMAGE, "nodedup", "--lbn", "0-99999999"], "the volume has");
    home.complaint(2, &["hint", "add", IMAGE, "nodedup", "--lbn", "9-3"], "the smaller number comes first");
    home.complaint(2, &["hint", "add", IMAGE, "nodedup", "--file", "/srv/x.raw"], "without its directory");
    home.complaint(2, &["hint", "add", IMAGE, "nodedup", "--process", "a-name-that-is-too-long"], "first 15 bytes");
    home.complaint(11, &["hint", "add", IMAGE, "nodedup", "--path", "/etc/passwd"], "is not attached");
    home.complaint(3, &["hint", "remove", IMAGE, "7"], "no rule 7");
    home.complaint(3, &["hint", "add", "nothing-here", "nodedup", "--meta"], "nothing-here");
    home.complaint(2, &["run", "true"], "nothing is to be marked");
    assert!(home.read(IMAGE) == before, "the volume is as it was");
    home.attach(IMAGE, &[]);
    home.complaint(2, &["hint", "add", IMAGE, "nodedup", "--lbn", "0-99999999"], "the volume has");
    home.complaint(3, &["hint", "remove", IMAGE, "7"], "no rule 7");
    home.complaint(11, &["hint", "add", IMAGE, "nodedup", "--path", "/etc/passwd"], "NBD");
    home.says(0, &["detach", IMAGE]);
    home.attach(IMAGE, &["--read-only"]);
    home.complaint(11, &["hint", "add", IMAGE, "nodedup", "--meta"], "is read-only");
    home.says(0, &["detach", IMAGE]);
    assert_eq!(home.json(&["hint", "list", IMAGE])["rules"].as_array().map(Vec::len), Some(0));
}

/// Rules that are too many for the room that a volume has are refused, and those that it has stay.
#[test]
fn rules_without_room_are_refused() {
    let home = Home::new();
    home.says(0, &["create", IMAGE, "--size", "16M"]);
    let mut dice = Dice::new(1);
    let mut name = || (0..12).map(|_| format!("{:016x}", dice.next())).collect::<String>();
    let mut kept = 0;
    let full = (0..200).find_map(|_| {
        let (out, err) = {
            let output = home.run(&["hint", "add", IMAGE, "nodedup", "--file", &name()]);
            (output.status.code(), String::from_utf8(output.stderr).unwrap())
        };
        kept += u32::from(out == Some(0));
        (out != Some(0)).then_some((out, err))
    });
    let (code, err) = full.expect("4 KiB are full at last");
    assert!(code == Some(11) && err.contains("the volume has room for"), "{code:?} {err}");
    assert_eq!(home.json(&["hint", "list", IMAGE])["rules"].as_array().unwrap().len(), usize::try_from(kept).unwrap());
}

#[test]
fn a_configuration_brings_rules_of_a_host() {
    let home = Home::new();
    home.says(0, &["create", IMAGE, "--size", "64M"]);
    std::fs::create_dir(home.path("config")).unwrap();
    let configured = |rule: &str| home.write("config/photos.toml", format!("volume = \"{}\"\n{rule}", home.path(IMAGE)));
    configured("[[hint]]\nact = \"nodedup\"\nfile = \"*.raw\"\n");
    home.says(0, &["attach", "--nbd", "photos"]);
    let rules = home.json(&["hint", "list", "photos"])["rules"].clone();
    assert_eq!((&rules[0]["number"], &rules[0]["conditions"]), (&Value::Null, &Value::from("--file *.raw")));
    home.says(0, &["detach", "photos"]);
    configured("[[hint]]\nact = \"nodedup\"\nfiel = \"*.raw\"\n");
    home.complaint(2, &["attach", "--nbd", "photos"], "fiel");
}

#[test]
fn what_a_rule_names_is_not_deduplicated() {
    let test = "what_a_rule_names_is_not_deduplicated";
    let Some(volume) = Mounted::new(test, &[]) else { return };
    if !volume.observes(test) {
        return;
    }
    volume.home.says(0, &["hint", "add", IMAGE, "nodedup", "--file", "*.raw"]);
    // The first request brings the feature of the superblock.
    volume.write("first.raw", &noise(9, 4));
    let content = noise(1, 256);
    assert!(volume.counted("a", &content).0 >= 256);
    assert!(volume.counted("b", &content).1 >= 256, "a copy is found");
    let (new, found) = volume.counted("c.raw", &content);
    assert!(new >= 256 && found < 64, "{new} {found}: no copy of it is looked for");
    // The next server has the rule, and sees who writes.
    let [_, server] = volume.home.processes(IMAGE);
    rustix::process::kill_process(server, rustix::process::Signal::KILL).unwrap();
    assert!(volume.observes(test));
    let (new, found) = volume.counted("d.raw", &content);
    assert!(new >= 256 && found < 64, "{new} {found}: after a kill");
    assert!(volume.counted("e", &content).1 >= 256, "others are found as before");
    let matched = volume.hints()["rules"][0]["matched_blocks"].as_u64().unwrap();
    assert!(matched >= 256, "{matched}");
}

/// A path is known by its inode: the name may change, and what others write to the same place is theirs.
#[test]
fn streams_are_counted_apart() {
    let test = "streams_are_counted_apart";
    let Some(mounted) = Mounted::new(test, &[]) else { return };
    mounted.home.says(0, &["hint", "add", IMAGE, "--stream", "photos", "--file", "*.raw"]);
    mounted.home.says(0, &["hint", "add", IMAGE, "--stream", "metadata", "--meta"]);
    if !mounted.observes(test) {
        return;
    }
    let bytes = noise(3, 64);
    mounted.write("a.raw", &bytes);
    mounted.write("b.raw", &bytes);
    mounted.write("c.txt", &noise(4, 32));
    let streams = mounted.stats()["streams"].clone();
    let of = |name: &str, what: &str| {
        let found = streams.as_array().unwrap().iter().find(|stream| stream["stream"] == name);
        found.unwrap_or_else(|| panic!("{name}: {streams}"))[what].as_u64().unwrap()
    };
    assert_eq!((of("photos", "client_units"), of("photos", "duplicates"), of("photos", "new_blocks")), (128, 64, 64));
    assert!(of("metadata", "client_units") > 0 && of("(unknown)", "client_units") >= 32, "{streams}");
    let shown = mounted.home.says(0, &["stats", IMAGE, "--by-stream"]);
    assert!(shown.contains("photos") && shown.contains("50 %"), "{shown}");
    assert!(mounted.home.says(0, &["hint", "list", IMAGE]).contains("stream photos"));
    assert!(mounted.home.says(0, &["top", "--once"]).contains("photos"));
    // A sixteenth has no number.
    for number in 0..13 {
        mounted.home.says(0, &["hint", "add", IMAGE, "--stream", &format!("s{number}"), "--meta"]);
    }
    mounted.home.complaint(11, &["hint", "add", IMAGE, "--stream", "more", "--meta"], "no room for another");
    mounted.home.complaint(2, &["hint", "add", IMAGE, "--stream", "nothing"], "matches nothing");
    run(Command::new("umount").arg(mounted.home.path("mnt")));
    mounted.home.says(0, &["detach", IMAGE]);
    mounted.home.complaint(3, &["stats", IMAGE, "--by-stream"], "is not attached");
}

#[test]
fn a_file_is_followed() {
    let test = "a_file_is_followed";
    let Some(volume) = Mounted::new(test, &[]) else { return };
    if !volume.observes(test) {
        return;
    }
    let (content, mnt) = (noise(2, 256), volume.home.path("mnt"));
    volume.write("marked", &noise(3, 256));
    volume.write("other", &content);
    volume.home.says(0, &["hint", "add", IMAGE, "nodedup", "--path", &format!("{mnt}/marked")]);
    volume.home.complaint(11, &["hint", "add", IMAGE, "nodedup", "--path", "/etc/passwd"], "does not lie on the volume");
    volume.write("marked", &noise(4, 4));
    std::fs::rename(format!("{mnt}/marked"), format!("{mnt}/renamed")).unwrap();
    let (new, found) = volume.counted("renamed", &content);
    assert!(new >= 256 && found < 64, "{new} {found}");
    std::fs::remove_file(format!("{mnt}/renamed")).unwrap();
    let (_, found) = volume.counted("another", &content);
    assert!(found >= 256, "{found}: a file that takes its place is no marked one");
}

#[test]
fn files_that_are_compressed_already_are_spared() {
    let test = "files_that_are_compressed_already_are_spared";
    let Some(volume) = Mounted::new(test, &[]) else { return };
    if !volume.observes(test) {
        return;
    }
    let text: Vec<u8> = (0..100_000).flat_map(|n: u32| format!("{n:09} ").into_bytes()).collect();
    let packed = || volume.stats()["packing"]["packed_blocks"].as_u64().unwrap();
    volume.write("a.mp4", &text);
    assert_eq!(volume.hints()["spared_blocks"].as_u64().unwrap() / 200, 1, "all of its blocks");
    let before = packed();
    volume.write("b.txt", &text.iter().map(|byte| byte ^ 1).collect::<Vec<_>>());
    assert!(packed() > before + 100, "others are compressed");
}

#[test]
fn nothing_is_observed_where_that_is_off() {
    let test = "nothing_is_observed_where_that_is_off";
    let Some(volume) = Mounted::new(test, &["--observe", "off"]) else { return };
    volume.home.says(0, &["hint", "add", IMAGE, "nodedup", "--file", "*.raw"]);
    let content = noise(1, 64);
    volume.write("a", &content);
    assert!(volume.counted("b.raw", &content).1 >= 64);
    assert_eq!(volume.hints()["observer"]["reason"], "--observe off");
    volume.home.says(0, &["hint", "add", IMAGE, "nodedup", "--lbn", "0-70000"]);
    volume.write("c", &noise(5, 4));
    assert!(volume.counted("d", &content).1 < 16, "LBNs are known without an observer");
}

/// The copies that ext4 keeps are protected soon after they were written, and a check finds all in order.
#[test]
fn copies_that_a_file_system_keeps_are_protected() {
    let test = "copies_that_a_file_system_keeps_are_protected";
    let Some(volume) = Mounted::new(test, &[]) else { return };
    let begin = Instant::now();
    let protection = loop {
        let protection = volume.stats()["protection"].clone();
        if protection["blocks"].as_u64() > Some(0) {
            break protection;
        }
        assert!(begin.elapsed() < PATIENCE, "nothing is found: {protection}");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(protection["file_systems"][0]["kind"], "ext2/3/4");
    for i in 0..200 {
        volume.write(&format!("f{i}"), &noise(i, 1));
    }
    run(Command::new("umount").arg(volume.home.path("mnt")));
    volume.home.says(0, &["detach", IMAGE]);
    let dumped = volume.home.says(0, &["dump", IMAGE, "--json"]);
    let dumped: Value = serde_json::from_str(&dumped).unwrap();
    assert_eq!(dumped["protected"][0][0], 0, "{}", dumped["protected"]);
    volume.home.says(0, &["check", "--data", IMAGE]);
}

/// Content that was shared before is parted, and shared again by nobody, until the rule goes.
#[test]
fn lbns_that_are_never_shared_are_parted() {
    let home = Home::new();
    home.says(0, &["create", IMAGE, "--size", "64M"]);
    let socket = home.attach(IMAGE, &[]);
    let mut client = Client::ready_for(Path::new(&socket), false, "");
    let content = noise(1, 20);
    for first in [0, 100, 200] {
        assert_eq!(client.write(0, first * 4096, &content), Ok(()));
    }
    client.command(FLUSH, 0, 0, 0).unwrap();
    let counts = || {
        let stats = home.json(&["stats", IMAGE]);
        [&stats["protection"]["blocks"], &stats["dedup"]["new_blocks"]].map(|count| count.as_u64().unwrap())
    };
    let new_blocks = counts()[1];
    let wait_for = |protected| {
        let begin = Instant::now();
        while counts() != [protected, new_blocks + 5] {
            assert!(begin.elapsed() < PATIENCE, "{:?}", counts());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    home.says(0, &["hint", "add", IMAGE, "never-share", "--lbn", "105-109"]);
    wait_for(5);
    // With other conditions a rule is about what is written from now on.
    home.says(0, &["hint", "add", IMAGE, "never-share", "--lbn", "0-9", "--process", "dd"]);
    wait_for(5);
    home.says(0, &["detach", IMAGE]);
    let dumped = home.json(&["dump", IMAGE]);
    assert_eq!(dumped["protected"], serde_json::json!([[105, 5]]), "{}", dumped["protected"]);
    let kind_of = |lbn: u64| home.json(&["dump", IMAGE, "--lbn", &lbn.to_string()])["leads_to"]["kind"].clone();
    let apart: Vec<u64> = (100..120).filter(|&lbn| kind_of(lbn) == "checksum").collect();
    assert_eq!(apart, [105, 106, 107, 108, 109]);
    home.says(0, &["check", "--data", IMAGE]);
    // The rule goes, and so does the protection.
    let socket = home.attach(IMAGE, &[]);
    home.says(0, &["hint", "remove", IMAGE, "1", "2"]);
    let new_blocks = counts()[1];
    let begin = Instant::now();
    // Until the index is rebuilt, what is stored may be stored again.
    let is_rebuilt = || home.json(&["stats", IMAGE])["dedup"]["index_entries"].as_u64() >= Some(20);
    while counts()[0] != 0 || !is_rebuilt() {
        assert!(begin.elapsed() < PATIENCE, "{:?}", counts());
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut client = Client::ready_for(Path::new(&socket), false, "");
    assert_eq!(client.write(0, 100 * 4096, &content), Ok(()));
    assert_eq!(counts()[1], new_blocks);
}
