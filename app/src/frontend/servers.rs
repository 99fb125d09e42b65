//! The servers that a supervisor starts, one after the other.

use crate::attachment::directory::make_private;
use crate::attachment::growth;
use crate::attachment::launch::{self, End, LaunchReport};
use crate::attachment::plan::Plan;
use crate::attachment::process::Process;
use crate::attachment::record::{Places, Record, keep_spare, look};
use crate::attachment::session::Session;
use crate::attachment::upgrade;
use crate::error::Error;
use crate::exit::Outcome;
use crate::runtime::messages::Message;
use crate::supervision::start::Start;
use serde::de::DeserializeOwned;
use std::process::Stdio;

/// The largest number of messages for the next server, which get to it by its command line; the newest are kept.
const SAID_MAX: usize = 8;
const DIED: &str = "the server that had the volume before has died";
const UPGRADED: &str = "another program was installed, and serves now";
const GROWS: &str = "the server gave way to the next one, so that the volume can grow";

/// The servers of an attachment, one after the other: this program, run by a plan.
pub struct Servers<'a> {
    pub plan: Plan,
    session: &'a Session,
    /// The lock that took the place of that one when its file was gone.
    later_session: Option<Session>,
    /// The server that was started last is of another program.
    pub is_upgraded: bool,
}

impl<'a> Servers<'a> {
    /// Returns the servers of a plan, which hold the lock of its attachment.
    #[must_use]
    pub fn of(plan: Plan, session: &'a Session) -> Self {
        Self { plan, session, later_session: None, is_upgraded: false }
    }

    fn session(&self) -> &Session {
        self.later_session.as_ref().unwrap_or(self.session)
    }

    /// Returns the command that starts the next one; it still has to inherit what clients hold.
    pub fn next_server(&mut self) -> Start {
        let places = Places::of(&self.plan.directory, &self.plan.id);
        let program = upgrade::take_program(&places.program);
        self.is_upgraded = program.is_some();
        self.plan.gives_way = self.is_upgraded;
        if self.plan.is_replacement {
            let is_to_grow = growth::ordered(&places).is_some();
            let message = match (self.is_upgraded, is_to_grow) {
                (true, _) => UPGRADED,
                (false, true) => GROWS,
                (false, false) => DIED,
            };
            self.plan.messages.push(Message::now(message));
            let old = self.plan.messages.len().saturating_sub(SAID_MAX);
            self.plan.messages.drain(..old);
        }
        let program = program.map_or_else(launch::itself, Start::of);
        let mut command = launch::command_of(program, &["serve"], &self.plan);
        command.lend(&[self.session().descriptor()]);
        command.args(self.session().argument()).stdin(Stdio::null()).stdout(Stdio::null());
        // The next server may find the volume still locked by the last requests of this one.
        self.plan.is_replacement = true;
        command
    }

    /// Returns the details that the front-end's own code has stored in the plan.
    ///
    /// # Errors
    /// When other code stored them.
    pub fn details<T: DeserializeOwned>(&self) -> Result<T, Error> {
        self.plan.frontend.details().map_err(|failed| Error::Setting(failed.message))
    }

    /// Returns the exit code that the server of this number has left.
    pub fn word(&self, server: u32) -> Option<i32> {
        let end = End::look(&Places::of(&self.plan.directory, &self.plan.id).end);
        end.filter(|end| end.process.pid == server).map(|end| end.exit as i32)
    }

    /// Returns the record that a dead supervisor has left.
    pub fn recorded(&self) -> Option<Record> {
        look(&Places::of(&self.plan.directory, &self.plan.id).record)
    }

    /// Records the attachment, with this process in charge of it, and reports it to the process that waits for it. Where the files of the
    /// attachment are gone, so that nobody finds it, they are made again.
    pub fn attached(&mut self, location: String) {
        tracing::info!(location, "attached");
        let record = Record::of(&self.plan, Process::this(), location.clone());
        let places = Places::of(&self.plan.directory, &self.plan.id);
        // The record may have taken the spare room.
        if let Err(failed) = self.keep_lock().and_then(|()| record.store(&places.record)).and_then(|()| keep_spare(&places)) {
            tracing::error!("{failed}");
        }
        LaunchReport::Ready { location }.tell();
    }

    /// Locks the attachment's file anew, where the one that is locked has lost its name.
    fn keep_lock(&mut self) -> Outcome {
        make_private(&self.plan.directory)?;
        let place = Places::of(&self.plan.directory, &self.plan.id).lock;
        if !self.session().is_at(&place) {
            self.later_session = Some(Session::begin(&place)?);
        }
        Ok(())
    }
}
