//! The warnings of this process's log: they are also among the notices of `status`, for owners who read no logs.
//!
//! 1. Every warning and error of a server's log is kept, except those that are among its volume's [`notices`](super::notices) anyway.
//! 2. A repeated warning is counted again, and takes no other place.

use super::messages::{KEPT_MAX, Message};
use crate::output::complain;
use std::fmt::{Debug, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// The list; one for each process, as there is one log.
static KEPT: Mutex<Vec<Warned>> = Mutex::new(Vec::new());

#[derive(Clone, Debug)]
struct Warned {
    message: Message,
    times: u64,
}

/// The part of the log that keeps warnings.
#[derive(Debug)]
pub struct Keep;

impl<S: Subscriber> Layer<S> for Keep {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let about = event.metadata();
        if *about.level() <= Level::WARN && !about.target().ends_with("runtime::notices") {
            let mut words = Words::default();
            event.record(&mut words);
            keep(Message::now(words.text()));
        }
    }
}

/// The part of a log that shows warnings and errors to the user of a command, in sentences.
#[derive(Debug)]
pub struct Show;

impl<S: Subscriber> Layer<S> for Show {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut words = Words::default();
        event.record(&mut words);
        let kind = if *event.metadata().level() <= Level::ERROR { "error" } else { "warning" };
        complain(format_args!("onefold: {kind}: {}", words.text()));
    }
}

/// The words of an event.
#[derive(Default)]
struct Words {
    message: String,
    /// The error that it reports.
    reason: String,
    fields: String,
}

impl Words {
    fn text(self) -> String {
        let Self { mut message, reason, fields } = self;
        if !reason.is_empty() {
            message = format!("{message}: {reason}");
        }
        if fields.is_empty() { message } else { format!("{message} ({fields})") }
    }
}

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let written = if field.name() == "message" {
            write!(self.message, "{value:?}")
        } else if field.name() == "error" {
            write!(self.reason, "{value:?}")
        } else {
            let comma = if self.fields.is_empty() { "" } else { ", " };
            write!(self.fields, "{comma}{} {value:?}", field.name())
        };
        written.expect("a string takes any text");
    }
}

fn kept() -> MutexGuard<'static, Vec<Warned>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a warning of this process, or of another one of this volume.
pub fn keep(message: Message) {
    let mut kept = kept();
    let times = match kept.iter().position(|warned| warned.message.text == message.text) {
        Some(place) => kept.remove(place).times + 1,
        None => 1,
    };
    if kept.len() == KEPT_MAX {
        kept.remove(0);
    }
    kept.push(Warned { message, times });
}

/// Returns all kept warnings, with the numbers of their repetitions.
#[must_use]
pub fn all() -> Vec<Message> {
    let once = |Warned { message, times }: &Warned| match times {
        1 => message.clone(),
        times => Message { text: format!("{} ({times} times)", message.text), ..message.clone() },
    };
    kept().iter().map(once).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing_subscriber::layer::SubscriberExt;

    #[test]
    fn warnings_are_kept_once_with_their_fields() {
        let log = tracing_subscriber::registry().with(Keep);
        tracing::subscriber::with_default(log, || {
            tracing::info!("nobody's business");
            for _ in 0..3 {
                tracing::warn!(path = %"/a file", "no direct I/O in this test");
            }
        });
        let texts: Vec<String> = all().into_iter().map(|message| message.text).filter(|text| text.contains("in this test")).collect();
        assert_eq!(texts, ["no direct I/O in this test (path /a file) (3 times)"]);
        assert!(all().iter().all(|message| !message.text.contains("nobody")));
    }

    #[test]
    fn an_error_is_said_in_the_sentence_that_reports_it() {
        let log = tracing_subscriber::registry().with(Keep);
        tracing::subscriber::with_default(log, || {
            let error = std::io::Error::from_raw_os_error(28);
            tracing::warn!(%error, place = %"/a", "nothing can be written in the test of sentences");
        });
        let texts: Vec<String> = all().into_iter().map(|message| message.text).filter(|text| text.contains("of sentences")).collect();
        assert_eq!(texts, ["nothing can be written in the test of sentences: No space left on device (os error 28) (place /a)"]);
    }
}
