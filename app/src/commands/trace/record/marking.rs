//! The socket on which a recorder that is a process of its own hears of phases.

use crate::attachment::control::{self, ServerRequest};
use crate::attachment::record::Places;
use crate::bios::marks::Marks;
use crate::exit::{Exit, Failed, Outcome};
use serde_json::Value;
use std::path::PathBuf;

/// The socket, which goes when it is dropped.
pub(super) struct Marking(PathBuf);

impl Marking {
    /// Checks that no other recorder of the attachment listens.
    ///
    /// # Errors
    /// When one does.
    pub fn check_free(places: &Places) -> Outcome {
        match control::server(&places.recorder) {
            None => Ok(()),
            Some(pid) => Err(Failed::new(Exit::InUse, format!("a recording is under way already, by process {pid}"))
                .next("Only one can be made at a time; end that one first.")),
        }
    }

    /// Begins to listen.
    ///
    /// # Errors
    /// When there can be no socket.
    pub fn begin(places: &Places, marks: Marks) -> Outcome<Self> {
        let respond = move |question, client: &control::Client<'_>| match question {
            ServerRequest::Mark { phase } => {
                marks.add(phase);
                client.answer(Ok(Value::Null))
            }
            _ => client.answer(Err(Failed::new(Exit::Usage, "invalid request: a recorder takes marks alone"))),
        };
        let cannot = |e| Failed::system(format!("cannot listen at {}", places.recorder.display()), e);
        control::listen(&places.recorder, respond).map_err(cannot)?;
        Ok(Self(places.recorder.clone()))
    }
}

impl Drop for Marking {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
