//! Keeping a claim: a thread beats, beside whatever needs the volume.

use super::claim::{Claim, Lost};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

/// A claim that is kept. If it is dropped, other hosts wait as for a dead server.
pub struct Kept {
    stop: Sender<()>,
    thread: JoinHandle<Option<Claim>>,
}

impl Kept {
    /// Begins to beat. `beaten` is called after each beat, and `gone` if the claim is gone: then nothing may be written any more.
    ///
    /// # Panics
    /// When the system has no more threads.
    #[must_use]
    pub fn start(claim: Claim, beaten: impl Fn() + Send + 'static, gone: impl FnOnce(Lost) + Send + 'static) -> Self {
        let (stop, stopped) = channel();
        let beat = move || beat_until(&stopped, claim, &beaten).map_err(gone).ok();
        let thread = std::thread::Builder::new().name("guard".to_owned()).spawn(beat).expect("the system has threads left");
        Self { stop, thread }
    }

    /// Ends the beats, and returns the claim where it still stands.
    #[must_use]
    pub fn end(self) -> Option<Claim> {
        let _ = self.stop.send(());
        self.thread.join().ok().flatten()
    }
}

/// Beats until it is stopped, and then returns the claim.
fn beat_until(stopped: &Receiver<()>, mut claim: Claim, beaten: &dyn Fn()) -> Result<Claim, Lost> {
    let mut wait = claim.interval();
    while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(wait) {
        let began = Instant::now();
        claim.beat()?;
        beaten();
        wait = claim.interval().saturating_sub(began.elapsed());
    }
    Ok(claim)
}
