//! A long opening reports its progress.

mod common;

use common::Dice;
use common::home::Home;
use common::nbd_client::{Client, FUA};

const BLOCK: usize = 4096;
/// Each makes a unit, and there are too few units for a compaction. The slowed store reads them one after the other, each in at least 0.27
/// ms: more than half a second.
const SYNCED_WRITES: u64 = 2000;

#[test]
fn an_opening_with_little_memory_on_a_slow_store_says_how_far_it_is() {
    let home = Home::new();
    home.expect(0, &["create", "disk", "--size", "64M", "--commit-mode", "log"]);
    let mut client = Client::ready_for(&home.attach("disk", &[]), true, "");
    let (mut dice, mut block) = (Dice::new(7), vec![0; BLOCK]);
    for i in 0..SYNCED_WRITES {
        // The content is noise, so that no block is stored in a unit or a pack.
        dice.fill(&mut block);
        client.write(FUA, (i * 37 % SYNCED_WRITES) * BLOCK as u64, &block).unwrap();
    }
    home.kill("disk");
    home.attach("disk", &["--device-model", "tablet", "--memory", "2M"]);
    let mut states: Vec<String> = Vec::new();
    let notices = loop {
        let status = home.json(&["status", "disk"]);
        let condition = &status["attached"]["condition"];
        states.push(condition["state"].as_str().unwrap().to_owned());
        if states.last().is_some_and(|state| state == "serving") {
            break condition["notices"].to_string();
        }
    };
    states.dedup();
    let opening: Vec<&String> =
        states.iter().filter(|state| state.starts_with("opening: ") && state.contains("units of the log read")).collect();
    assert!(!opening.is_empty() && states.iter().all(|state| state.starts_with("opening") || state == "serving"), "{states:?}");
    // The last report is in the server's log, but not among the notices, because it does not hold any more.
    assert!(!notices.contains("opening: ") && notices.contains("serving"), "{states:?} {notices}");
    let files = std::fs::read_dir(home.path("run")).unwrap().map(|entry| entry.unwrap().path());
    let log: String =
        files.filter(|path| path.extension().is_some_and(|end| end == "log")).map(|path| std::fs::read_to_string(path).unwrap()).collect();
    assert!(log.contains("records replayed"), "{log}");
    home.expect(0, &["detach", "disk"]);
    assert_eq!(home.json(&["check", "disk"])["sound"].as_bool(), Some(true));
}
