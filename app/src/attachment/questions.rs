//! Questions to the server of an attached volume, by the volume's record.

use super::control::{self, ServerRequest};
use super::directory::run_directory;
use super::record::{Places, Record};
use crate::exit::{Failed, Outcome};
use crate::runtime::condition::{Condition, Counts};
use crate::runtime::extents::ExtentCounts;
use serde::de::DeserializeOwned;
use serde_json::Value;

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

fn answer<T: DeserializeOwned>(record: &Record, question: &ServerRequest) -> Outcome<T> {
    serde_json::from_value(ask(record, question)?).map_err(|e| Failed::system("unexpected reply from the server", e))
}
