//! The paths of control groups, by their numbers.

use crate::hints::groups::each_below;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time after which groups are looked for again, where one is not known.
const AGAIN: Duration = Duration::from_secs(5);

/// The control groups that are known.
#[derive(Default)]
pub(super) struct Groups {
    paths: HashMap<u64, Arc<str>>,
    looked: Option<Instant>,
}

impl Groups {
    /// Returns the path of a group below the root of all groups, `/` for the root itself. None if there is no such group.
    pub fn path_of(&mut self, number: u64) -> Option<Arc<str>> {
        if number == 0 {
            return None;
        }
        if !self.paths.contains_key(&number) && self.looked.is_none_or(|looked| looked.elapsed() >= AGAIN) {
            self.looked = Some(Instant::now());
            // Groups that are gone keep their paths: their writes come later.
            each_below("", |path, number| {
                self.paths.insert(number, format!("/{path}").into());
            });
        }
        self.paths.get(&number).cloned()
    }
}
