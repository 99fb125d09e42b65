//! Questions to the server of an attached volume, by the volume's record.

use super::control::{self, ServerRequest};
use super::directory::run_directory;
use super::record::{Places, Record};
use crate::exit::{Failed, Outcome};
use crate::runtime::condition::{Condition, Counts};
use crate::runtime::extents::ExtentCounts;
use crate::runtime::links::{LinkSearch, LinksFound, Stretch};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeSet;

/// Asks the server of the volume.
///
/// # Errors
/// See [`control::ask`].
pub fn ask(record: &Record, question: &ServerRequest) -> Outcome<Value> {
    control::ask(&Places::of(&run_directory()?, &record.id).control, question)
}

/// Returns the counts since the volume was attached.
///
/// # Errors
/// When its server does not answer.
pub fn counts(record: &Record) -> Outcome<Counts> {
    answer(record, &ServerRequest::Stats)
}

/// Returns the condition of the volume.
///
/// # Errors
/// When its server does not answer.
pub fn condition(record: &Record) -> Outcome<Condition> {
    answer(record, &ServerRequest::Status)
}

/// Counts the extents of the volume.
///
/// # Errors
/// When its server does not answer, or the device fails.
pub fn extents(record: &Record) -> Outcome<ExtentCounts> {
    let mut counts = ExtentCounts::default();
    loop {
        counts = answer(record, &ServerRequest::Extents(counts))?;
        if counts.is_whole() {
            return Ok(counts);
        }
    }
}

/// Returns the bytes of the volume whose content lies in these blocks, and those that are lost.
///
/// # Errors
/// When its server does not answer, or is an older one.
pub fn links(record: &Record, pbns: &BTreeSet<u64>) -> Outcome<Vec<Stretch>> {
    let mut search = LinkSearch { from: 0, pbns: pbns.clone() };
    let mut stretches = Vec::new();
    loop {
        let found: LinksFound = answer(record, &ServerRequest::Links(search.clone()))?;
        stretches.extend(found.stretches);
        if found.upto >= found.of_bytes {
            return Ok(stretches);
        }
        search.from = found.upto;
    }
}

/// Returns the blocks of content that were found damaged since the volume was attached.
///
/// # Errors
/// When its server does not answer, or is an older one.
pub fn damaged(record: &Record) -> Outcome<BTreeSet<u64>> {
    answer(record, &ServerRequest::Damaged)
}

fn answer<T: DeserializeOwned>(record: &Record, question: &ServerRequest) -> Outcome<T> {
    serde_json::from_value(ask(record, question)?).map_err(|e| Failed::system("unexpected reply from the server", e))
}
