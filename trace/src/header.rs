//! What is true of a whole trace.
//!
//! 1. Each file of a trace's folder says it again, so that no file depends on another.
//! 2. A gap is told with its time and the number of requests that are missing, or is there none.

use onefold_engine::fingerprint::Algorithm;
use onefold_engine::units::{BLOCK_BYTES, Bytes, SECTOR_BYTES};
use serde::{Deserialize, Serialize};

/// The version of the folder's format. A reader takes its own and older ones.
pub const FORMAT_VERSION: u32 = 1;

/// What one fingerprint stands for.
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
    /// Its size.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Block => BLOCK_BYTES,
            Self::Sector => SECTOR_BYTES,
        }
    }
}

/// Requests that were made and are not in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// As in the records.
    pub time_ns: u64,
    pub requests: u64,
}

/// What is true of a whole trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// None where no content was recorded, or nobody knows how.
    pub algorithm: Option<Algorithm>,
    /// Bytes kept of each fingerprint.
    pub width: usize,
    pub unit: Unit,
    /// Names the key of the fingerprints and tells nothing of it; none where they have no key.
    pub key_id: Option<String>,
    /// The clock that the times are from.
    pub clock: String,
    /// What that clock said when the trace began.
    pub origin_ns: u64,
    /// Of the traced device.
    pub device_bytes: Option<Bytes>,
    /// The form of text that it was imported from, and how that was laid out.
    pub form: Option<String>,
    pub gaps: Vec<Gap>,
}

/// Keys of the metadata of a Parquet file, all in front of which stands `onefold.`.
const PREFIX: &str = "onefold.";

impl Header {
    /// As keys and values.
    ///
    /// # Panics
    /// Never: gaps are plain numbers.
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

    /// From keys and values, of which others are passed over.
    ///
    /// # Errors
    /// With the reason, where they are not those of a trace that this version reads.
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
                Err(format!("it has version {version} of the format, and this onefold reads {FORMAT_VERSION} at most"))
            }
            Some(_) => Ok(header),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_read() {
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
