//! The lifetime ledger of a volume, as reports show it.

use super::volume_counts::{name, ratio};
use onefold_engine::format::Lifetime;
use onefold_engine::interface::Class;
use serde::{Deserialize, Serialize};

/// The counts since the volume was created, in units of 4 KiB. Each update of the superblock has all of them. Counts after the last update
/// of a server that was killed are missing (in mode `log` updates come with checkpoints, in mode `ordered` with recounts and the close).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Lived {
    pub client_units: u64,
    pub device_units: u64,
    /// Device ÷ client; none while nothing was written.
    pub write_ratio: Option<f64>,
    pub device_flushes: u64,
    pub classes: Vec<LivedClass>,
}

/// The writes of one class.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LivedClass {
    pub class: String,
    pub units: u64,
    pub bytes: u64,
    pub commands: u64,
}

impl Lived {
    /// Converts a superblock's ledger, or an engine's.
    #[must_use]
    pub fn of(lifetime: &Lifetime) -> Self {
        let client_units = lifetime.client_write_units;
        let device_units = lifetime.classes.iter().fold(0, |sum: u64, class| sum.saturating_add(class.units));
        let classes = Class::ALL.iter().zip(&lifetime.classes).map(|(class, c)| LivedClass {
            class: name(*class).to_owned(),
            units: c.units,
            bytes: c.bytes,
            commands: c.commands,
        });
        Self {
            client_units,
            device_units,
            write_ratio: ratio(device_units, client_units),
            device_flushes: lifetime.device_flushes,
            classes: classes.collect(),
        }
    }
}
