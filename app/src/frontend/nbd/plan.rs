//! The decisions about a volume's NBD clients when it is attached.

use super::listen::{Endpoint, Listen, Listening};
use crate::attachment::record::Places;
use crate::error::Error;
use crate::exit::{Exit, Failed, Outcome};
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// The address where they connect, and the export.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Details {
    pub listen: Listen,
    pub export: String,
    /// The place where the supervisor listens, once it does.
    pub place: Option<Endpoint>,
}

impl Details {
    /// Decides by what the user typed, or for a socket of the volume's own. The export is called by the volume's label.
    ///
    /// # Errors
    /// When the user typed no valid address.
    pub fn of(typed: Option<&str>, places: &Places, label: Option<&str>) -> Outcome<Self> {
        let listen = match typed {
            Some(typed) => absolute(typed)?.parse().map_err(|e: Error| Failed::new(Exit::Usage, e.to_string()))?,
            None => Listen::Unix(places.socket.clone()),
        };
        Ok(Self { listen, export: label.unwrap_or_default().to_owned(), place: None })
    }

    /// Returns the socket that the supervisor keeps; none where its place is not known yet.
    #[must_use]
    pub fn listening(&self, kept: Vec<OwnedFd>) -> Option<Listening> {
        let socket = kept.into_iter().next()?;
        Some(Listening::inherited(socket, self.place.clone()?))
    }
}

/// Makes a socket's path absolute, for a process with another working directory; addresses stay as they are.
fn absolute(typed: &str) -> Outcome<String> {
    let path = typed.strip_prefix("unix:").unwrap_or(typed);
    if path == typed && !typed.contains('/') {
        return Ok(typed.to_owned());
    }
    let path: PathBuf = std::path::absolute(path).map_err(|e| Failed::system(format!("cannot use {typed}"), e))?;
    Ok(format!("unix:{}", path.display()))
}
