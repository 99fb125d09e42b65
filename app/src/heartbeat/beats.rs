//! The beats of a guarded volume that is served: they go on beside it, from its opening until it has closed.

use super::claim::Lost;
use super::kept::Kept;
use crate::hints::Hints;
use crate::runtime::condition::{Condition, Counts, GuardUse};
use crate::runtime::recording::tap::Tap;
use crate::runtime::tally::Count;
use crate::runtime::volume::Volume;
use crate::runtime::{Closing, Served};
use crate::target::SharedTarget;
use onefold_engine::interface::Event;
use onefold_engine::units::BLOCK_BYTES;
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A volume that stops when another host claims it.
pub struct Guarded {
    volume: Arc<Volume>,
    interval: Duration,
    /// None when the beats were ended.
    kept: Mutex<Option<Kept>>,
}

impl Guarded {
    /// Serves a volume that was just opened, as long as the claim is kept.
    #[must_use]
    pub fn new(volume: Arc<Volume>, kept: Kept) -> Arc<Self> {
        let stopping = volume.clone();
        kept.when_lost(move |lost| {
            let event = match lost {
                Lost::Ousted => Event::Ousted,
                Lost::Failed(error) => {
                    tracing::error!(%error, "the guard block cannot be read or written");
                    Event::StoreFailed
                }
            };
            stopping.feed(&mut vec![event], Vec::new());
        });
        Arc::new(Self { volume, interval: kept.interval(), kept: Mutex::new(Some(kept)) })
    }

    fn kept(&self) -> MutexGuard<'_, Option<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn beats(&self) -> u64 {
        self.kept().as_ref().map_or(0, Kept::beats)
    }
}

impl Served for Guarded {
    fn target(self: Arc<Self>) -> SharedTarget {
        self.volume.clone()
    }

    fn order(&self, order: Event) {
        self.volume.order(order);
    }

    fn make_journal_again(&self) -> io::Result<()> {
        self.volume.make_journal_again()
    }

    /// The beats go on until the volume has closed; only then others may have it.
    fn close(&self) -> Closing {
        let closing = self.volume.close();
        let kept = self.kept().take();
        let claim = kept.and_then(|kept| kept.end().ok());
        // After a failure nothing is written (A5): another host waits as for a dead server.
        if let (Closing::Clean | Closing::Lossy, Some(claim)) = (closing, claim) {
            claim.release();
        }
        closing
    }

    fn condition(&self) -> Condition {
        let interval_ms = u32::try_from(self.interval.as_millis()).unwrap_or(u32::MAX);
        let guard = Some(GuardUse { interval_ms, writes: self.beats() });
        Condition { guard, ..self.volume.condition() }
    }

    fn counts(&self) -> Counts {
        let mut counts = self.volume.counts();
        let operations = self.beats();
        counts.device.extend(["write guard", "read guard"].map(|what| Count {
            what: what.to_owned(),
            operations,
            bytes: operations * BLOCK_BYTES,
        }));
        counts
    }

    fn damaged(&self) -> BTreeSet<u64> {
        self.volume.damaged()
    }

    fn hints(&self) -> Option<&Arc<Hints>> {
        self.volume.hints()
    }

    fn tap(&self) -> &Arc<Tap> {
        self.volume.tap()
    }
}
