//! Figure 4, measured live: `./dev bench load-memory load-processor` leave a file, from which the report takes it.

use super::published::PHONE_MIB;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The bare store with no volume, with which volumes are compared.
pub const PASSTHROUGH: &str = "passthrough";
/// The volume with default settings, which is judged.
pub const VOLUME: &str = "volume";

/// A load that was replayed live through a server.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Cost {
    pub load: String,
    /// "passthrough", "volume", or the commit mode that is not the default.
    pub setup: String,
    /// The seconds that the load took when it was recorded.
    pub load_seconds: f64,
    /// The processor seconds of the server for all of the load's requests.
    pub cpu_seconds: f64,
    /// The most memory that the server had resident.
    pub peak_mib: f64,
}

/// Everything that was measured live.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct LoadCosts {
    pub cores: u64,
    /// The memory of the machine.
    pub machine_mib: f64,
    pub costs: Vec<Cost>,
}

/// The cost of a volume beyond that of passthrough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct More {
    /// Memory, as a share of that of the paper's phone.
    pub memory: f64,
    /// Processor time, as a share of one processor's while the load ran as it was recorded.
    pub processor: f64,
}

impl LoadCosts {
    /// Reads the file.
    ///
    /// # Errors
    /// Fails if it is not there, or is no such file.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}; ./dev bench load-memory makes such a file", path.display()))
    }

    /// Lists the loads, in the order of the file.
    #[must_use]
    pub fn loads(&self) -> Vec<&str> {
        let mut loads: Vec<&str> = Vec::new();
        for cost in &self.costs {
            if !loads.contains(&cost.load.as_str()) {
                loads.push(&cost.load);
            }
        }
        loads
    }

    /// Lists the setups but passthrough, in the order of the file.
    #[must_use]
    pub fn setups(&self) -> Vec<&str> {
        let mut setups: Vec<&str> = Vec::new();
        for cost in self.costs.iter().filter(|cost| cost.setup != PASSTHROUGH) {
            if !setups.contains(&cost.setup.as_str()) {
                setups.push(&cost.setup);
            }
        }
        setups
    }

    /// Returns what was measured of a load.
    #[must_use]
    pub fn of(&self, load: &str, setup: &str) -> Option<&Cost> {
        self.costs.iter().find(|cost| cost.load == load && cost.setup == setup)
    }

    /// Returns what a load costs beyond passthrough.
    #[must_use]
    pub fn more(&self, load: &str, setup: &str) -> Option<More> {
        let (with, without) = (self.of(load, setup)?, self.of(load, PASSTHROUGH)?);
        let processor = (with.cpu_seconds - without.cpu_seconds) / with.load_seconds;
        Some(More { memory: (with.peak_mib - without.peak_mib) / PHONE_MIB, processor })
    }
}
