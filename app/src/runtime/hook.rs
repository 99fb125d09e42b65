//! A command of the owner's that hears of warnings: it may mail, trim or make room.
//!
//! 1. It runs beside the server, never in the way of a request, one at a time. Of warnings that come while it runs the latest alone is told
//!    after it: a command that does not end hears of nothing more.
//! 2. It hears of each notice once, not of each write.

use crate::supervision::start::Start;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// How grave it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Info,
    Warning,
    Error,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// What a command is told.
#[derive(Clone, Debug)]
pub struct Warning {
    pub level: Level,
    /// The state that the volume is in from here on, as `status` shows it.
    pub state: &'static str,
    pub message: String,
}

#[derive(Debug, Default)]
struct Next {
    warning: Mutex<Option<Warning>>,
    came: Condvar,
}

/// The command, and the thread that runs it.
#[derive(Debug)]
pub struct Hook(Arc<Next>);

impl Hook {
    /// Runs `command`, by `sh -c`, at each warning of `volume` from now on.
    ///
    /// # Panics
    /// When the system has no more threads.
    #[must_use]
    pub fn start(command: String, volume: PathBuf) -> Self {
        let next = Arc::new(Next::default());
        let hook = Self(next.clone());
        let run = move || {
            loop {
                let waiting = next.warning.lock().unwrap_or_else(PoisonError::into_inner);
                let mut came = next.came.wait_while(waiting, |warning| warning.is_none()).unwrap_or_else(PoisonError::into_inner);
                let Some(Warning { level, state, message }) = came.take() else { continue };
                drop(came);
                let mut shell = Start::of("sh");
                shell.arg("-c").arg(&command).stdin(Stdio::null()).stdout(Stdio::null());
                shell.env("ONEFOLD_LEVEL", level.name()).env("ONEFOLD_VOLUME", &volume).env("ONEFOLD_STATE", state);
                match shell.env("ONEFOLD_MESSAGE", message).status() {
                    Ok(status) if status.success() => {}
                    Ok(status) => tracing::warn!(%status, command, "the command of --on-warning failed"),
                    Err(error) => tracing::warn!(%error, command, "cannot run the command of --on-warning"),
                }
            }
        };
        std::thread::Builder::new().name("on-warning".to_owned()).spawn(run).expect("the system has threads left");
        hook
    }

    /// Has the command told of it, in place of what it was not told yet.
    pub fn warn(&self, warning: Warning) {
        *self.0.warning.lock().unwrap_or_else(PoisonError::into_inner) = Some(warning);
        self.0.came.notify_one();
    }
}
