//! The owner's command for warnings: it may mail, trim or make room.
//!
//! 1. It runs beside the server, never in the way of a request, one at a time. Of the warnings that come while it runs, it gets only the
//!    latest: a command that does not end gets no more.
//! 2. It gets each notice once, not for each write.

use crate::supervision::start::Start;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The severity of a warning.
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

/// The warning that a command gets.
#[derive(Clone, Debug)]
pub struct Warning {
    pub level: Level,
    /// The state that the volume is in from now on, as `status` shows it.
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
    /// Starts the thread that runs `command`, by `sh -c`, at each warning of `volume` from now on.
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

    /// Passes the warning to the command, instead of one that it has not got yet.
    pub fn warn(&self, warning: Warning) {
        *self.0.warning.lock().unwrap_or_else(PoisonError::into_inner) = Some(warning);
        self.0.came.notify_one();
    }
}
