//! The loads that were recorded from a disk and come with the project (`data/loads`), compared with what their recorder counted
//! (`NAME.json`) and with what their page says of them (`README.md`).

mod common;

use onefold_trace::info::Info;
use serde_json::Value;
use std::path::PathBuf;

/// The kinds of a load's writes: file data, buffered or direct, metadata of the file system, and its journal.
const STREAMS: [&str; 4] = ["D", "O", "M", "J"];

fn folder() -> PathBuf {
    common::data("loads")
}

/// Returns for each load of the page's table its name and the processes that write in it.
fn described() -> Vec<(String, Vec<String>)> {
    let page = std::fs::read_to_string(folder().join("README.md")).expect("the page is there");
    let quoted = |cell: &str| -> Vec<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        let [name, .., processes] = cells[..] else { panic!("{row}") };
        (quoted(name).remove(0), quoted(processes))
    })
    .collect()
}

fn info(name: &str) -> Info {
    common::info(&folder(), name)
}

#[test]
fn each_load_is_on_the_page_and_each_row_is_a_load() {
    let shipped = common::names(&folder());
    let mut described: Vec<String> = described().into_iter().map(|(name, _)| name).collect();
    described.sort();
    assert_eq!(shipped, described);
    assert_eq!(shipped.len(), 15);
}

#[test]
fn each_load_is_as_its_recorder_counted_it() {
    for (name, _) in described() {
        let recorded = std::fs::read_to_string(folder().join(format!("{name}.json"))).expect("the recorder's counts are there");
        let recorded: Value = serde_json::from_str(&recorded).expect("JSON");
        let info = info(&name);
        let counted = |key: &str| recorded[key].as_u64().unwrap_or_else(|| panic!("{name}.json has no {key}"));
        assert_eq!((counted("gaps"), counted("blocks_partial")), (0, 0), "{name}");
        assert_eq!((info.records, info.total.blocks_written), (counted("records"), counted("blocks")), "{name}");
        assert_eq!(info.total.blocks_written - info.total.unknown, counted("blocks_known"), "{name}");
    }
}

#[test]
fn each_load_has_flushes_content_and_the_programs_of_its_row() {
    for (name, processes) in described() {
        let info = info(&name);
        assert!(info.total.flushes > 0 && info.total.blocks_written > 1000, "{name}: {:?}", info.total);
        assert_eq!(info.total.unknown, 0, "{name}: blocks of unknown content");
        assert!(info.total.duplicates_ever > 0, "{name}: no content was written twice");
        let unknown = info.streams.iter().filter(|stream| stream.counts.blocks_written > 0 && !STREAMS.contains(&&*stream.name));
        assert_eq!(unknown.count(), 0, "{name}: {:?}", info.streams);
        assert!(!processes.is_empty(), "{name}: the page names no process");
        for process in processes {
            let wrote = info.processes.iter().any(|part| *part.name == *process && part.counts.blocks_written > 0);
            assert!(wrote, "{name}: {process} wrote nothing");
        }
    }
}
