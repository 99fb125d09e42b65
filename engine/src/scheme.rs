//! What makes epochs durable: the commit under way, what waits behind it, and the carried log.

use crate::commit::{Anticipation, Commit};
use crate::log::Log;

/// The commit scheme of an open volume.
#[derive(Default)]
pub(crate) struct Scheme {
    pub anticipation: Anticipation,
    pub commit: Option<Commit>,
    /// The carried log, in its mode, and while a live one is emptied.
    pub log: Option<Log>,
}
