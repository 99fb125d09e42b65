//! The common parts of `onefold-lab`'s tests.

#![allow(dead_code)] // each test file uses its own part

#[path = "../../../app/tests/common/home.rs"]
pub mod home;
#[path = "../../../app/tests/common/nbd_client.rs"]
pub mod nbd_client;
#[path = "../../../app/tests/common/tools.rs"]
pub mod tools;

use home::Home;
use onefold_trace::info::Counter;
use onefold_trace::source::{ReadOptions, Source};
use serde_json::Value;
use std::path::Path;
#[allow(unused_imports)] // each test file uses its own part
pub use tools::{Dice, have, run, skipped};

/// The binary that is tested.
pub const BINARY: &str = env!("CARGO_BIN_EXE_onefold-lab");

/// Returns the counts of `onefold-lab trace info --json` for a trace.
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
