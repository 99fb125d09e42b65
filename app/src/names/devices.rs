//! A block device and its partitions.

use rustix::fs::{major, makedev, minor};
use std::io;
use std::ops::Range;
use std::path::Path;

/// The unit of sizes in sysfs, in bytes.
const UNIT: u64 = 512;

/// A block device, and its place on the one that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its device number.
    pub device: u64,
    /// Bytes.
    pub place: Range<u64>,
}

/// Returns the device, and its partitions.
///
/// # Errors
/// When sysfs does not have it.
pub fn with_partitions(device: u64) -> io::Result<Vec<Part>> {
    let folder = format!("/sys/dev/block/{}:{}", major(device), minor(device));
    let folder = Path::new(&folder);
    let mut parts = vec![Part { device, place: 0..number(&folder.join("size"))? * UNIT }];
    for entry in std::fs::read_dir(folder)?.flatten() {
        let place = entry.path();
        // Other folders in it are no partitions.
        if !place.join("partition").exists() {
            continue;
        }
        let start = number(&place.join("start"))? * UNIT;
        let end = start + number(&place.join("size"))? * UNIT;
        let numbers = std::fs::read_to_string(place.join("dev"))?;
        let (major, minor) = numbers.trim().split_once(':').ok_or_else(|| invalid(&numbers))?;
        let part = |text: &str| text.parse().map_err(|_| invalid(&numbers));
        parts.push(Part { device: makedev(part(major)?, part(minor)?), place: start..end });
    }
    Ok(parts)
}

fn number(path: &Path) -> io::Result<u64> {
    let text = std::fs::read_to_string(path)?;
    text.trim().parse().map_err(|_| invalid(&text))
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("sysfs has '{}' for a number", text.trim()))
}
