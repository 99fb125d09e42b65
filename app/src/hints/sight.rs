//! The thread that has a volume's disk observed: from when the disk is there, and anew when rules want to know more.

use super::Hints;
use onefold_engine::units::index;
use onefold_observer::{Disk, Observer, Wants};
use std::io;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

/// The memory of an observer, in bytes, half of it for the ring: a part of that of its server, within bounds.
const MEMORY_SHARE: u64 = 32;
const MEMORY_BYTES: (u64, u64) = (256 << 10, 2 << 20);
/// The time between two looks for the disk, which is made when its server serves.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// The time after which control groups are looked at again, which may have come meanwhile.
const GROUPS_AGAIN: Duration = Duration::from_secs(5);

/// The word after `helper` by which a server has its observer loaded.
pub const LOADER: &str = "observe";

/// The way to a disk and its observer.
pub struct Way {
    /// Returns the disk once it is there.
    pub find: Box<dyn Fn() -> Option<Disk> + Send>,
    /// Starts a process of this program that loads the observer: its standard input is given.
    pub spawn: Box<dyn Fn(Stdio) -> io::Result<Child> + Send>,
    /// The memory of the observer, in bytes.
    pub memory_bytes: usize,
}

/// Has the disk observed that the way leads to; until the hints are gone.
pub fn begin(hints: &Arc<Hints>, way: Way) {
    let hints = Arc::downgrade(hints);
    let begun = std::thread::Builder::new().name("observer".to_owned()).spawn(move || watch(&hints, &way));
    begun.map(drop).unwrap_or_else(|error| tracing::warn!(%error, "nothing is observed: there is no thread for it"));
}

fn watch(hints: &Weak<Hints>, way: &Way) {
    let disk = loop {
        match ((way.find)(), hints.upgrade()) {
            (_, None) => return,
            (Some(disk), _) => break disk,
            (None, _) => std::thread::sleep(LOOK_AGAIN),
        }
    };
    if let Some(hints) = hints.upgrade() {
        let _ = hints.disk.set(disk);
    }
    let mut now = None::<Wants>;
    let mut version = 0;
    while let Some(hints) = hints.upgrade() {
        let live = super::read(&hints.live).clone();
        let wanted = hints.wants(&live);
        if wanted != now {
            let (observer, blind) = match wanted.map(|wants| Observer::begin_in_child(disk, wants, way.memory_bytes, &way.spawn)) {
                None => (None, None),
                Some(Ok(observer)) => (Some(Arc::new(observer)), None),
                Some(Err(refused)) => {
                    tracing::info!("requests are not observed, so hints know LBNs alone: {refused}");
                    (None, Some(refused.to_string()))
                }
            };
            hints.observe_by(observer, blind);
            now = wanted;
        }
        if live.minds_cgroups() {
            // The control groups that rules name may have changed.
            hints.renew(&hints.owned());
        }
        drop(live);
        version = hints.await_change(version, GROUPS_AGAIN);
    }
}

/// Returns the memory of the observer of a server with this memory, in bytes.
#[must_use]
pub fn memory_of(server_bytes: u64) -> usize {
    index((server_bytes / MEMORY_SHARE).clamp(MEMORY_BYTES.0, MEMORY_BYTES.1))
}

/// The number of a disk, from the path of its block device.
#[must_use]
pub fn disk_at(path: &Path) -> Option<Disk> {
    let found = rustix::fs::stat(path).ok()?;
    let is_block = rustix::fs::FileType::from_raw_mode(found.st_mode) == rustix::fs::FileType::BlockDevice;
    is_block.then(|| Disk { major: rustix::fs::major(found.st_rdev), minor: rustix::fs::minor(found.st_rdev) })
}

impl Hints {
    /// Returns the facts to observe, if any.
    fn wants(&self, live: &super::Live) -> Option<Wants> {
        let marks = self.marks.len() > 0;
        let wants = live.wants();
        (marks || !live.is_empty()).then_some(Wants { files: wants.files || marks, ..wants })
    }

    /// Says that nothing will be observed, and why.
    pub fn stay_blind(&self, why: &str) {
        self.observe_by(None, Some(why.to_owned()));
    }

    /// Waits until the rules have changed since `version`, but not for longer than `most`. Returns the version then.
    fn await_change(&self, version: u64, most: Duration) -> u64 {
        let owned = self.owned();
        let waited = self.changed.wait_timeout_while(owned, most, |owned| owned.version == version);
        waited.unwrap_or_else(PoisonError::into_inner).0.version
    }
}
