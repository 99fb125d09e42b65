//! The common parts of `onefold-lab`'s tests.

#![allow(dead_code)] // each test file uses its own part

#[path = "../../../app/tests/common/home.rs"]
pub mod home;

use home::Home;
use onefold_trace::info::Counter;
use onefold_trace::source::{ReadOptions, Source};
use serde_json::Value;
use std::path::Path;

/// The binary that is tested.
pub const BINARY: &str = env!("CARGO_BIN_EXE_onefold-lab");

/// Returns the counts of `onefold trace info --json` for a trace.
pub fn counted(home: &Home, trace: &str) -> Value {
    let how = ReadOptions::default();
    let mut source = Source::open(Path::new(&home.path(trace)), &how).unwrap();
    let mut counter = Counter::new();
    let count = |source: &Source, record| {
        counter.count(&record, source.unit());
        Ok(())
    };
    source.each(&how, &mut |line| panic!("{line}"), count).unwrap();
    serde_json::to_value(counter.info(&source.header())).unwrap()
}
