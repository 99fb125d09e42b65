//! The traces that come with the project.

use onefold_trace::info::{Counter, Info};
use onefold_trace::source::{ReadOptions, Source};
use std::path::{Path, PathBuf};

/// Returns a folder below `data`.
pub fn data(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../data").join(folder)
}

/// Returns the names of the traces in a folder, in order.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter_map(|name| name.strip_suffix(".tsv.zst").map(str::to_owned)).collect();
    names.sort();
    names
}

/// Counts a trace of a folder.
pub fn info(folder: &Path, name: &str) -> Info {
    let how = ReadOptions::default();
    let mut source = Source::open(&folder.join(format!("{name}.tsv.zst")), &how).expect("it opens");
    let unit = source.header().unit;
    let mut counter = Counter::new();
    let mut report = |malformed: &onefold_trace::text::Malformed| panic!("{malformed}");
    let count = |_: &Source, record| {
        counter.count(&record, unit);
        Ok(())
    };
    source.each(&how, &mut report, count).expect("it is read to its end");
    counter.info(&source.header())
}
