//! The content of the report: what a volume did and what it holds, as its server or its medium tells.

use crate::attachment::questions;
use crate::attachment::record::Record;
use crate::detached_space::DetachedSpace;
use crate::device::Slowed;
use crate::device::bottom::DiskWork;
use crate::device::measure::room_below;
use crate::exit::{Failed, Outcome};
use crate::runtime::condition::{Condition, Counts, PartUse};
use crate::runtime::extents::ExtentCounts;
use crate::runtime::lived::Lived;
use crate::runtime::volume_counts::{Saved, VolumeCounts};
use crate::volume;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The reason why the savings are not known.
const COUNTS_LOST: &str = "some counts of links are lost; `onefold check` tells more";

#[derive(Debug, Serialize)]
pub(super) struct Stats {
    pub path: PathBuf,
    pub attached: bool,
    pub passthrough: bool,
    /// The space of clients' content; none while it is not known.
    pub saved: Option<Saved>,
    /// The reason why it is not known.
    #[serde(skip)]
    pub unknown: &'static str,
    /// The space left for new content; none while it is not known.
    pub available_bytes: Option<u64>,
    /// The state that `status` shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The room on the file system of a store in a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostRoom>,
    /// The counts since the volume was attached.
    #[serde(flatten)]
    pub counts: Counts,
    /// The backing store is slowed to the pace of a model: no times here are the store's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowed: Option<Slowed>,
    pub memory: Vec<PartUse>,
    /// The work of the disks below the store since it was attached, writes of others included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskWork>,
    /// The extents of its data, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extents: Option<ExtentCounts>,
    /// Whether streams are shown in the table, too.
    #[serde(skip)]
    pub is_by_stream: bool,
}

/// The room on a file system, in bytes.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct HostRoom {
    pub available_bytes: u64,
    pub bytes: u64,
}

impl Stats {
    /// Asks the server of an attached volume.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn of_attached(record: &Record) -> Outcome<Self> {
        let counts = questions::counts(record)?;
        let Condition { state, slowed, memory, store, .. } = questions::condition(record)?;
        let place = store.as_ref().filter(|store| store.open_as.exists()).map_or(&record.path, |store| &store.open_as);
        let host = room_below(place).map(|(available_bytes, bytes)| HostRoom { available_bytes, bytes });
        let is_counted = counts.volume.as_ref().is_some_and(|volume| volume.space.is_complete);
        Ok(Self {
            path: store.map_or_else(|| record.path.clone(), |store| store.path),
            attached: true,
            passthrough: record.is_passthrough,
            saved: counts.volume.as_ref().and_then(VolumeCounts::saved),
            unknown: if is_counted { COUNTS_LOST } else { "still counting" },
            available_bytes: counts.volume.as_ref().filter(|_| is_counted).map(VolumeCounts::available_bytes),
            state: Some(state),
            host,
            counts,
            slowed,
            memory,
            disk: Some(record.bottom.work()),
            extents: None,
            is_by_stream: false,
        })
    }

    /// Reads what the medium holds about a volume that nobody serves.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of_detached(path: &Path) -> Outcome<Self> {
        let superblock = volume::peek(path)?.superblock;
        let space = match superblock.clean {
            true => DetachedSpace::read(path, &superblock).map_err(|e| Failed::system(format!("cannot read {}", path.display()), e))?,
            false => None,
        };
        Ok(Self {
            path: path.to_path_buf(),
            attached: false,
            passthrough: false,
            saved: space.as_ref().map(DetachedSpace::saved),
            unknown: if superblock.clean { COUNTS_LOST } else { "it was not closed in order, and the next attach recovers it" },
            available_bytes: space.as_ref().map(|space| space.available_bytes(&superblock)),
            state: None,
            host: None,
            counts: Counts { lifetime: Some(Lived::of(&superblock.lifetime)), ..Counts::default() },
            slowed: None,
            memory: Vec::new(),
            disk: None,
            extents: None,
            is_by_stream: false,
        })
    }
}
