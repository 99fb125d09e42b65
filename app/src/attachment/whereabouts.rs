//! Where the backing store of an attached volume is now: it may have been renamed or deleted since it was attached.

use super::control::{Ask, Conversation};
use super::directory::run_directory;
use super::record::{Places, Record};
use crate::device::StorePlace;
use crate::device::measure::identity_of;
use crate::exit::Outcome;
use crate::runtime::condition::Condition;
use std::path::PathBuf;
use std::time::Duration;

/// How long a server may take to say where its store is.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a user is told of an attached store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whereabouts {
    /// Its name now, or the last that is known.
    pub path: PathBuf,
    /// It is a file without a name.
    pub is_deleted: bool,
    /// A path by which a deleted one can be copied, where its server said one.
    pub open_as: Option<PathBuf>,
}

impl Whereabouts {
    /// Looks by the record's path, and asks the server where something else is there or nothing.
    #[must_use]
    pub fn of(record: &Record) -> Self {
        let there = record.path.metadata().ok().map(|meta| identity_of(&meta));
        if there.is_some() && record.store.is_none_or(|store| there == Some(store)) {
            return Self { path: record.path.clone(), is_deleted: false, open_as: None };
        }
        match asked(record) {
            Ok(Some(StorePlace { path, is_deleted, open_as })) => Self { path, is_deleted, open_as: Some(open_as) },
            // A silent server has the store still; whether under another name, nobody else can say.
            _ => Self { path: record.path.clone(), is_deleted: true, open_as: None },
        }
    }

    /// The path, and that it is deleted where it is.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}{}", self.path.display(), if self.is_deleted { " (deleted)" } else { "" })
    }
}

fn asked(record: &Record) -> Outcome<Option<StorePlace>> {
    let mut conversation = Conversation::begin(&Places::of(&run_directory()?, &record.id).control, &Ask::Status)?;
    if !conversation.has_answer(PATIENCE)? {
        return Ok(None);
    }
    let condition: Option<Condition> = serde_json::from_value(conversation.hear()?).ok();
    Ok(condition.and_then(|condition| condition.store))
}
