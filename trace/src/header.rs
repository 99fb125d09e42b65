//! Facts about a whole trace.
//!
//! 1. Each file of a trace's folder repeats them, so that no file depends on another.
//! 2. A gap has its time and the number of missing requests; requests are never missing without one.

use onefold_engine::fingerprint::Algorithm;
use onefold_engine::units::{BLOCK_BYTES, Bytes, SECTOR_BYTES};
use serde::{Deserialize, Serialize};

/// The version of the folder's format. A reader accepts this version and older ones.
pub const FORMAT_VERSION: u32 = 1;

/// The number of bytes that one fingerprint stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// 4096 bytes.
    #[default]
    Block,
    /// 512 bytes.
    Sector,
}

impl Unit {
    /// Returns the size in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Block => BLOCK_BYTES,
            Self::Sector => SECTOR_BYTES,
        }
    }
}

/// Requests that were made but are not in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// The time, on the clock of the records.
    pub time_ns: u64,
    pub requests: u64,
}

/// The facts about a whole trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The algorithm of the fingerprints; none if no content was recorded or the algorithm is unknown.
    pub algorithm: Option<Algorithm>,
    /// The number of bytes kept of each fingerprint.
    pub width: usize,
    pub unit: Unit,
    /// An identifier of the fingerprints' key, which reveals nothing about the key; none if they have no key.
    pub key_id: Option<String>,
    /// The clock that the times were read from.
    pub clock: String,
    /// The time on that clock when the trace began.
    pub origin_ns: u64,
    /// The size of the traced device.
    pub device_bytes: Option<Bytes>,
    /// The form of text that the trace was imported from, and the layout of its lines.
    pub form: Option<String>,
    pub gaps: Vec<Gap>,
}

/// The prefix of all our keys in the metadata of a Parquet file.
const PREFIX: &str = "onefold.";

impl Header {
    /// Returns the header as keys and values.
    ///
    /// # Panics
    /// Never panics: gaps consist of numbers.
    #[must_use]
    pub fn to_pairs(&self) -> Vec<(String, String)> {
        let gaps = serde_json::to_string(&self.gaps).expect("numbers are JSON");
        let pairs = [
            ("version", Some(FORMAT_VERSION.to_string())),
            ("algorithm", self.algorithm.map(|algorithm| algorithm.name().to_owned())),
            ("width", Some(self.width.to_string())),
            ("unit_bytes", Some(self.unit.bytes().to_string())),
            ("key_id", self.key_id.clone()),
            ("clock", Some(self.clock.clone())),
            ("origin_ns", Some(self.origin_ns.to_string())),
            ("device_bytes", self.device_bytes.map(|bytes| bytes.get().to_string())),
            ("form", self.form.clone()),
            ("gaps", Some(gaps)),
        ];
        pairs.into_iter().filter_map(|(key, value)| Some((format!("{PREFIX}{key}"), value?))).collect()
    }

    /// Builds a header from keys and values; unknown keys are ignored.
    ///
    /// # Errors
    /// Returns the reason if they are not those of a trace that this version reads.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, String> {
        let mut header = Self::default();
        let mut version = None;
        for (key, value) in pairs {
            let Some(key) = key.strip_prefix(PREFIX) else { continue };
            let strange = || format!("its {key} is {value:?}");
            match key {
                "version" => version = Some(value.parse::<u32>().map_err(|_| strange())?),
                "algorithm" => {
                    header.algorithm = Some(Algorithm::ALL.into_iter().find(|a| a.name() == value).ok_or_else(strange)?);
                }
                "width" => {
                    header.width = value.parse().ok().filter(|width| *width <= crate::record::NAME_BYTES_MAX).ok_or_else(strange)?;
                }
                "unit_bytes" => {
                    header.unit = [Unit::Block, Unit::Sector].into_iter().find(|u| u.bytes().to_string() == value).ok_or_else(strange)?;
                }
                "key_id" => header.key_id = Some(value.to_owned()),
                "clock" => value.clone_into(&mut header.clock),
                "origin_ns" => header.origin_ns = value.parse().map_err(|_| strange())?,
                "device_bytes" => header.device_bytes = Some(Bytes(value.parse().map_err(|_| strange())?)),
                "form" => header.form = Some(value.to_owned()),
                "gaps" => header.gaps = serde_json::from_str(value).map_err(|_| strange())?,
                _ => {}
            }
        }
        match version {
            None => Err("its metadata has no onefold.version".to_owned()),
            Some(version) if version > FORMAT_VERSION => {
                Err(format!("it has version {version} of the format, and this onefold reads versions up to {FORMAT_VERSION}"))
            }
            Some(_) => Ok(header),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_header_is_read_back() {
        let header = Header {
            algorithm: Some(Algorithm::Md5),
            width: 16,
            unit: Unit::Sector,
            key_id: Some("k".to_owned()),
            clock: "monotonic".to_owned(),
            origin_ns: 89_966_034_018_496,
            device_bytes: Some(Bytes(1 << 33)),
            form: Some("fiu".to_owned()),
            gaps: vec![Gap { time_ns: 7, requests: 2 }],
        };
        for header in [header, Header::default()] {
            let pairs = header.to_pairs();
            assert_eq!(Header::from_pairs(pairs.iter().map(|(k, v)| (k.as_str(), v.as_str()))), Ok(header));
        }
        assert!(Header::from_pairs([("onefold.version", "2")]).is_err_and(|reason| reason.contains("version 2")));
        assert!(Header::from_pairs([("pandas", "{}")]).is_err());
    }
}
