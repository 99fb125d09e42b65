//! The age of a flash device, as far as it tells.

use onefold_observer::Disk;
use serde::Serialize;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The age of a device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Age {
    /// The part of its life that is used, in per cent, as the device estimates it. eMMC tells it in steps of 10: this is the upper end.
    pub used_percent: u64,
    /// Bytes that were written to it in all its life, where it tells.
    pub written_bytes: Option<u64>,
    /// By what it was asked.
    pub source: String,
}

impl Age {
    /// Returns the years that it has left if it goes on at this many bytes a day. None where that cannot be known.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // an estimate
    pub fn years_left(&self, bytes_a_day: u64) -> Option<f64> {
        let written = self.written_bytes.filter(|_| self.used_percent > 0 && bytes_a_day > 0)?;
        let endurance = written as f64 / (self.used_percent as f64 / 100.0);
        let left = (endurance - written as f64).max(0.0);
        Some(left / bytes_a_day as f64 / 365.25)
    }
}

/// Asks a disk for its age: an eMMC by its file in /sys, any other by smartctl, if that is installed.
#[must_use]
pub fn age_of(disk: Disk, device: &Path) -> Option<Age> {
    let folder = format!("/sys/dev/block/{disk}/device");
    if let Ok(text) = fs::read_to_string(format!("{folder}/life_time")) {
        let used_percent = of_emmc(&text)?;
        return Some(Age { used_percent, written_bytes: None, source: "life_time of the eMMC".to_owned() });
    }
    let answer = Command::new("smartctl").args(["--json", "-A"]).arg(device).stderr(Stdio::null()).stdin(Stdio::null()).output().ok()?;
    of_smartctl(&answer.stdout)
}

/// Decodes `life_time`: two numbers, for the two types of its memory, in steps of ten per cent.
fn of_emmc(text: &str) -> Option<u64> {
    let steps = text.split_whitespace().filter_map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok());
    steps.filter(|step| (1..=11).contains(step)).max().map(|step| (step * 10).min(100))
}

/// Decodes the answer of `smartctl --json -A`.
fn of_smartctl(json: &[u8]) -> Option<Age> {
    let answer: serde_json::Value = serde_json::from_slice(json).ok()?;
    let source = "smartctl".to_owned();
    if let Some(log) = answer.get("nvme_smart_health_information_log") {
        let used_percent = log.get("percentage_used")?.as_u64()?;
        // In thousands of 512 bytes.
        let written_bytes = log.get("data_units_written").and_then(serde_json::Value::as_u64).map(|units| units * 512_000);
        return Some(Age { used_percent, written_bytes, source });
    }
    let attributes = answer.get("ata_smart_attributes")?.get("table")?.as_array()?;
    let of = |number: u64| attributes.iter().find(|attribute| attribute.get("id").and_then(serde_json::Value::as_u64) == Some(number));
    let value = |number: u64| of(number)?.get("value")?.as_u64();
    // Wear_Leveling_Count, SSD_Life_Left, Media_Wearout_Indicator, Percent_Lifetime_Remain: 100 when new.
    let left = [231, 177, 233, 202].into_iter().find_map(value).filter(|left| *left <= 100)?;
    let written_bytes = of(241).and_then(|written| written.get("raw")?.get("value")?.as_u64()).map(|sectors| sectors * 512);
    Some(Age { used_percent: 100 - left, written_bytes, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emmc_tells_in_steps_of_ten() {
        assert_eq!([of_emmc("0x01 0x02\n"), of_emmc("0x0b 0x01"), of_emmc("0x00 0x00"), of_emmc("")], [Some(20), Some(100), None, None]);
    }

    #[test]
    fn smartctl_tells_of_nvme_and_sata() {
        let nvme = br#"{"nvme_smart_health_information_log": {"percentage_used": 3, "data_units_written": 1000000}}"#;
        let age = of_smartctl(nvme).expect("it tells");
        assert_eq!((age.used_percent, age.written_bytes), (3, Some(512_000_000_000)));
        // 17 TB in all, of which 0.5 are written, at 10 GB a day.
        let years = age.years_left(10_000_000_000).expect("it can be known");
        assert!((years - 4.53).abs() < 0.01, "{years}");
        let sata = br#"{"ata_smart_attributes": {"table": [{"id": 177, "value": 95}, {"id": 241, "raw": {"value": 2000}}]}}"#;
        let age = of_smartctl(sata).expect("it tells");
        assert_eq!((age.used_percent, age.written_bytes), (5, Some(1_024_000)));
        assert_eq!(of_smartctl(b"{}"), None);
        assert_eq!(Age { used_percent: 0, ..age }.years_left(1), None);
    }
}
