//! The current place of an attached volume's backing store, which may have been renamed or deleted since it was attached.

use super::control::{Conversation, ServerRequest};
use super::directory::run_directory;
use super::record::{Places, Record};
use crate::device::StorePlace;
use crate::device::measure::identity_of;
use crate::exit::Outcome;
use crate::runtime::condition::Condition;
use std::path::PathBuf;
use std::time::Duration;

/// The time that a server may take to report the place of its store.
const PATIENCE: Duration = Duration::from_secs(2);

/// The place of an attached store, as it is shown to a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whereabouts {
    /// Its name now, or the last known one.
    pub path: PathBuf,
    /// The store is a file without a name.
    pub is_deleted: bool,
    /// A path from which a deleted store can be copied, where its server reported one.
    pub open_as: Option<PathBuf>,
}

impl Whereabouts {
    /// Examines the record's path, and asks the server where the path is missing or holds something else.
    #[must_use]
    pub fn of(record: &Record) -> Self {
        let there = record.path.metadata().ok().map(|meta| identity_of(&meta));
        if there.is_some() && record.store.is_none_or(|store| there == Some(store)) {
            return Self { path: record.path.clone(), is_deleted: false, open_as: None };
        }
        match asked(record) {
            Ok(Some(StorePlace { path, is_deleted, open_as, .. })) => Self { path, is_deleted, open_as: Some(open_as) },
            // A silent server still has the store, but nobody else knows its current name.
            _ => Self { path: record.path.clone(), is_deleted: true, open_as: None },
        }
    }

    /// Returns the path, and notes where the file is deleted.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}{}", self.path.display(), if self.is_deleted { " (deleted)" } else { "" })
    }
}

fn asked(record: &Record) -> Outcome<Option<StorePlace>> {
    let mut conversation = Conversation::begin(&Places::of(&run_directory()?, &record.id).control, &ServerRequest::Status)?;
    if !conversation.has_answer(PATIENCE)? {
        return Ok(None);
    }
    let condition: Option<Condition> = serde_json::from_value(conversation.hear()?).ok();
    Ok(condition.and_then(|condition| condition.store))
}
