//! The beats of a guarded volume that is served: they go on beside it, from its opening until it has closed.

use super::claim::{Claim, Lost};
use crate::runtime::condition::{Condition, Counts, GuardUse};
use crate::runtime::recording::tap::Tap;
use crate::runtime::tally::Count;
use crate::runtime::volume::Volume;
use crate::runtime::{Closing, Served};
use crate::target::SharedTarget;
use onefold_engine::interface::Event;
use onefold_engine::units::BLOCK_BYTES;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A volume that stops when another host claims it.
pub struct Guarded {
    volume: Arc<Volume>,
    interval: Duration,
    beats: Arc<AtomicU64>,
    stop: Sender<()>,
    /// The thread, which returns the claim where it still stands; none when it was waited for.
    thread: Mutex<Option<JoinHandle<Option<Claim>>>>,
}

impl Guarded {
    /// Begins to beat for a volume that was just opened.
    ///
    /// # Panics
    /// When the system has no more threads.
    #[must_use]
    pub fn start(volume: Arc<Volume>, claim: Claim) -> Arc<Self> {
        let (stop, stopped) = channel();
        let (interval, beats) = (claim.interval(), Arc::new(AtomicU64::new(0)));
        let (beating, counted) = (volume.clone(), beats.clone());
        let beat = move || beat_until(&stopped, claim, &counted, &beating);
        let thread = std::thread::Builder::new().name("guard".to_owned()).spawn(beat).expect("the system has threads left");
        Arc::new(Self { volume, interval, beats, stop, thread: Mutex::new(Some(thread)) })
    }
}

/// Beats until it is stopped, and then returns the claim; or until the claim is gone, and then the volume has failed.
fn beat_until(stopped: &Receiver<()>, mut claim: Claim, beats: &AtomicU64, volume: &Volume) -> Option<Claim> {
    let mut wait = claim.interval();
    while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(wait) {
        let began = Instant::now();
        let event = match claim.beat() {
            Ok(()) => {
                beats.fetch_add(1, Ordering::Relaxed);
                wait = claim.interval().saturating_sub(began.elapsed());
                continue;
            }
            Err(Lost::Ousted) => Event::Ousted,
            Err(Lost::Failed(error)) => {
                tracing::error!(%error, "the guard block cannot be read or written");
                Event::GuardFailed
            }
        };
        volume.feed(&mut vec![event], Vec::new());
        return None;
    }
    Some(claim)
}

impl Served for Guarded {
    fn target(self: Arc<Self>) -> SharedTarget {
        self.volume.clone()
    }

    fn order(&self, order: Event) {
        self.volume.order(order);
    }

    /// The beats go on until the volume has closed; only then others may have it.
    fn close(&self) -> Closing {
        let closing = self.volume.close();
        let _ = self.stop.send(());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let claim = thread.and_then(|thread| thread.join().ok().flatten());
        // After a failure nothing is written (A5): another host waits as for a dead server.
        if let (Closing::Clean, Some(claim)) = (closing, claim) {
            claim.release();
        }
        closing
    }

    fn condition(&self) -> Condition {
        let interval_ms = u32::try_from(self.interval.as_millis()).unwrap_or(u32::MAX);
        let guard = Some(GuardUse { interval_ms, writes: self.beats.load(Ordering::Relaxed) });
        Condition { guard, ..self.volume.condition() }
    }

    fn counts(&self) -> Counts {
        let mut counts = self.volume.counts();
        let operations = self.beats.load(Ordering::Relaxed);
        counts.device.extend(["write guard", "read guard"].map(|what| Count {
            what: what.to_owned(),
            operations,
            bytes: operations * BLOCK_BYTES,
        }));
        counts
    }

    fn tap(&self) -> &Arc<Tap> {
        self.volume.tap()
    }
}
