//! The names of what was found damaged while clients use a volume: its owner learns which files have lost content.
//!
//! 1. Names are looked for by a process of its own: file systems on the volume are asked, and they may wait for this server.
//! 2. A block is named once, and at most [`PBNS_MAX`] of them. Between two searches there is a rest.

use crate::attachment::launch;
use crate::names::Named;
use crate::runtime::Served;
use crate::runtime::links::PBNS_MAX;
use crate::runtime::volume::Volume;
use std::collections::BTreeSet;
use std::io;
use std::process::Stdio;
use std::sync::Weak;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// The word by which [`helper`](crate::commands::helper) looks for names.
pub const NAMER: &str = "name";
/// The time that a search waits for file systems that cannot say themselves whose a block is.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The time from the first find to a search, in which others are likely to follow.
const SOON: Duration = Duration::from_secs(1);
/// The time between two searches.
const REST: Duration = Duration::from_secs(60);

/// Has damaged content named, as long as the volume is served. `finds` gets a word for each find; `uuid` is the volume's.
pub fn begin(finds: Receiver<()>, volume: Weak<Volume>, uuid: String) {
    let begun = std::thread::Builder::new().name("names".to_owned()).spawn(move || watch(&finds, &volume, &uuid));
    begun.map(drop).unwrap_or_else(|error| tracing::warn!(%error, "damaged content is not named: there is no thread for it"));
}

fn watch(finds: &Receiver<()>, volume: &Weak<Volume>, uuid: &str) {
    let mut named = BTreeSet::new();
    let mut is_found = false;
    while named.len() < PBNS_MAX && (is_found || finds.recv().is_ok()) && rest(finds, SOON).is_some() {
        let Some(damaged) = volume.upgrade().map(|volume| volume.damaged()) else { return };
        let found: BTreeSet<u64> = damaged.difference(&named).copied().collect();
        is_found = false;
        if found.is_empty() {
            continue;
        }
        match names(uuid, &found) {
            Ok(names) => volume.upgrade().iter().for_each(|volume| volume.tell_names(&names)),
            Err(error) => tracing::warn!(%error, "cannot find the names of damaged content"),
        }
        named.extend(found);
        let Some(finds_more) = rest(finds, REST) else { return };
        is_found = finds_more;
    }
}

/// Waits for this long. Returns whether something was found meanwhile; none if the volume is not served any more.
fn rest(finds: &Receiver<()>, time: Duration) -> Option<bool> {
    let end = Instant::now() + time;
    let mut is_found = false;
    loop {
        match finds.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(()) => is_found = true,
            Err(RecvTimeoutError::Timeout) => return Some(is_found),
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

/// Has a process of its own find the names of what lies in these blocks.
fn names(uuid: &str, blocks: &BTreeSet<u64>) -> io::Result<Vec<Named>> {
    let mut start = launch::itself();
    start.args(["helper", NAMER, uuid]).args(blocks.iter().map(u64::to_string)).stdin(Stdio::null());
    let output = start.output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    serde_json::from_slice(&output.stdout).map_err(io::Error::other)
}
