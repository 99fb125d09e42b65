//! Recordings of `onefold trace record`, which every verb of the laboratory reads.

mod common;

use common::Dice;
use common::home::Home;
use common::nbd_client::{Client, FUA};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

const BLOCK: usize = 4096;
const WRITES: u64 = 300;

/// A store with a recorder of its server.
fn recorded(home: &Home) -> Value {
    home.blank("disk", 16 << 20);
    let mut client = Client::ready_for(&home.attach("disk", &["--passthrough", "--memory", "1G"]), false, "");
    let recorder = recorder(home);
    let (mut dice, mut block) = (Dice::new(3), vec![0; BLOCK]);
    for n in 0..WRITES {
        if n == WRITES / 2 {
            home.says(0, &["trace", "mark", "disk", "second half"]);
        }
        // Each third content is the one before.
        if n % 3 > 0 {
            dice.fill(&mut block);
        }
        client.write(if n % 10 == 0 { FUA } else { 0 }, dice.below(1024) * BLOCK as u64, &block).unwrap();
    }
    kill_process(Pid::from_child(&recorder), Signal::INT).unwrap();
    let output = recorder.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    home.says(0, &["detach", "disk"]);
    serde_json::from_slice(&output.stdout).unwrap()
}

fn recorder(home: &Home) -> Child {
    let words = ["trace", "record", "disk", "--out", "recording", "--unkeyed", "md5", "--json"];
    let mut recorder = home.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(recorder.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("recording "), "{line}");
    recorder
}

/// Returns a report without the path of its trace.
fn without_path(mut report: Value) -> Value {
    report.as_object_mut().unwrap().remove("trace");
    report
}

#[test]
fn every_verb_reads_a_recording_and_the_folder_made_of_it_alike() {
    let home = Home::new();
    let summary = recorded(&home);
    assert_eq!((summary["records"].as_u64(), summary["gaps"].as_u64()), (Some(WRITES), Some(0)), "{summary}");
    let imported = home.json(&["trace", "import", "recording", "folder"]);
    assert_eq!((imported["records"].as_u64(), &imported["cut_off_at"]), (Some(WRITES + 1), &Value::Null), "{imported}");

    let [info, of_folder] = ["recording", "folder"].map(|trace| without_path(home.json(&["trace", "info", trace])));
    assert_eq!(info, of_folder);
    assert_eq!((info["total"]["writes"].as_u64(), info["device_bytes"].as_u64()), (Some(WRITES), of_folder["device_bytes"].as_u64()));
    assert_eq!(info["phases"][1]["name"].as_str(), Some("second half"), "{info}");
    assert_eq!(info["total"]["fua"].as_u64(), Some(WRITES / 10));

    let [text, of_folder] = ["recording", "folder"].map(|trace| home.says(0, &["trace", "export", trace, "-", "--to", "csv"]));
    assert!(text == of_folder && text.lines().count() as u64 == WRITES + 3, "{}", text.lines().count());
    let part = ["recording", "folder"].map(|trace| {
        let cut = format!("{trace}-cut");
        home.says(0, &["trace", "cut", trace, &cut, "--phase", "second half"]);
        home.says(0, &["trace", "export", &cut, "-", "--to", "csv"])
    });
    assert!(part[0] == part[1] && part[0].lines().count() as u64 == WRITES / 2 + 3);
    let [analysis, of_folder] =
        ["recording", "folder"].map(|trace| home.json(&["trace", "analyze", trace])["applications"][0]["chunks"].clone());
    assert_eq!((&analysis, analysis.as_u64()), (&of_folder, Some(WRITES)));
    let [image, of_folder] = ["recording", "folder"].map(|trace| {
        let image = format!("{trace}.img");
        home.blank(&image, 16 << 20);
        home.says(0, &["trace", "replay", trace, "--on", &image, "--no-think", "--verify"]);
        home.read(&image)
    });
    assert!(image == of_folder && image.iter().any(|byte| *byte != 0), "the images differ");
}

#[test]
fn a_recording_that_is_cut_off_or_damaged_is_read_as_far_as_it_is_whole() {
    let home = Home::new();
    recorded(&home);
    let whole = home.read("recording");
    home.write("cut", &whole[..whole.len() - 10]);
    let imported = home.json(&["trace", "import", "cut", "of-cut"]);
    assert_eq!(imported["records"].as_u64(), Some(WRITES + 1), "the end alone is missing");
    assert!(imported["cut_off_at"].as_u64().is_some(), "{imported}");
    assert!(home.says(0, &["trace", "info", "cut"]).contains("cut off"));

    let mut damaged = whole.clone();
    let middle = damaged.len() - 200;
    damaged[middle] ^= 1;
    home.write("damaged", &damaged);
    home.complaint(6, &["trace", "info", "damaged"], "damaged is damaged at byte");
    home.complaint(6, &["trace", "import", "damaged", "t"], "--lenient");
    let taken = home.json(&["trace", "import", "damaged", "t", "--lenient"]);
    assert!(taken["records"].as_u64() < Some(WRITES + 1) && taken["cut_off_at"].as_u64().is_some(), "{taken}");

    home.write("later", b"onefold trace 9\nof another year");
    home.complaint(6, &["trace", "info", "later"], "another version");
}
