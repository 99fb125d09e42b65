//! The share of deduplication that the machine can afford (SmartDedup section 3.4), watched all the time: the pressure on its processors
//! and its disks (`/proc/pressure`), and its battery (`/sys/class/power_supply`).
//!
//! 1. While tasks wait for a processor, or all wait for a disk, for half of the time, the share falls by a tenth a second, down to 30 %.
//!    Otherwise it rises by three tenths a second.
//! 2. On battery the share is what is left of it; below 20 % it is nothing.
//! 3. What cannot be read limits nothing.

use onefold_engine::adaptation::{ALL, Allowance};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::time::Duration;

/// The time between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// The share of the last ten seconds, in per cent, from which something is fully used.
const FULLY_USED: f32 = 50.0;
/// Per cent by which the share falls and rises, and the least share.
const FALL: u8 = 10;
const RISE: u8 = 30;
const LEAST: u8 = 30;
/// With less of the battery left, in per cent, nothing is spent on deduplication.
const LOW_BATTERY: u8 = 20;

/// The reasons for which writes may be deferred, as the user chose them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adapt {
    pub duplication: bool,
    pub pressure: bool,
    pub battery: bool,
}

impl Adapt {
    /// Parses a list of reasons.
    ///
    /// # Errors
    /// When one of them is none.
    pub fn parse(typed: &str) -> Result<Self, String> {
        let all = Self { duplication: true, pressure: true, battery: true };
        let add = |adapt: Self, reason: &str| match reason.trim() {
            "duplication" => Ok(Self { duplication: true, ..adapt }),
            "pressure" => Ok(Self { pressure: true, ..adapt }),
            "battery" => Ok(Self { battery: true, ..adapt }),
            _ => Err(format!(
                "`{reason}` is none of duplication, pressure and battery; several are separated by commas, or give all or none"
            )),
        };
        match typed {
            "none" => Ok(Self::default()),
            "all" => Ok(all),
            _ => typed.split(',').try_fold(Self::default(), add),
        }
    }

    /// Returns whether the machine is to be watched.
    #[must_use]
    pub fn watches(self) -> bool {
        self.pressure || self.battery
    }
}

/// The shares that the machine can afford, in per cent; none where the user did not ask, or it cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Affordable {
    pub by_pressure: Option<u8>,
    pub by_battery: Option<u8>,
}

impl Affordable {
    /// Returns the consequence for a volume.
    #[must_use]
    pub fn allowance(self) -> Allowance {
        let share = self.by_pressure.unwrap_or(ALL).min(self.by_battery.unwrap_or(ALL));
        Allowance { in_line: share, out_of_line: share }
    }
}

/// A gauge of the machine.
pub struct Gauge {
    adapt: Adapt,
    /// The directory with `proc` and `sys`.
    root: PathBuf,
    by_pressure: u8,
}

impl Gauge {
    /// Makes a gauge of the machine whose `proc` and `sys` are in `root`.
    #[must_use]
    pub fn new(adapt: Adapt, root: &Path) -> Self {
        Self { adapt, root: root.to_owned(), by_pressure: ALL }
    }

    /// Looks at the machine.
    pub fn look(&mut self) -> Affordable {
        let by_pressure = self.adapt.pressure.then(|| self.pressure()).flatten();
        let by_battery = self.adapt.battery.then(|| battery(&self.root.join("sys/class/power_supply")));
        Affordable { by_pressure, by_battery }
    }

    /// Returns the share by pressure; none where the kernel does not tell it.
    fn pressure(&mut self) -> Option<u8> {
        let processors = waiting(&self.root.join("proc/pressure/cpu"), "some");
        let disks = waiting(&self.root.join("proc/pressure/io"), "full");
        if processors.is_none() && disks.is_none() {
            return None;
        }
        let is_fully_used = [processors, disks].into_iter().flatten().any(|share| share >= FULLY_USED);
        self.by_pressure = if is_fully_used { (self.by_pressure - FALL).max(LEAST) } else { (self.by_pressure + RISE).min(ALL) };
        Some(self.by_pressure)
    }
}

/// Returns the share of the last ten seconds in which tasks waited, in per cent; none where it cannot be read.
fn waiting(path: &Path, line: &str) -> Option<f32> {
    let text = std::fs::read_to_string(path).ok()?;
    let fields = text.lines().find_map(|found| found.strip_prefix(line))?;
    fields.split_whitespace().find_map(|field| field.strip_prefix("avg10="))?.parse().ok()
}

/// Returns the share by battery: all, unless the machine lives on it.
fn battery(supplies: &Path) -> u8 {
    let entries = std::fs::read_dir(supplies).into_iter().flatten().flatten();
    let read = |of: &Path, name: &str| std::fs::read_to_string(of.join(name)).map(|text| text.trim().to_owned()).unwrap_or_default();
    let left = entries.map(|entry| entry.path()).filter_map(|of| {
        // The battery of a mouse has the scope of a device.
        let is_used = read(&of, "type") == "Battery" && read(&of, "scope") != "Device" && read(&of, "status") == "Discharging";
        is_used.then(|| read(&of, "capacity").parse::<u8>().ok()).flatten()
    });
    match left.max() {
        None => ALL,
        Some(percent) if percent < LOW_BATTERY => 0,
        Some(percent) => percent.min(ALL),
    }
}

/// Calls `tell` when the machine can afford something else, as long as `whom` exists.
///
/// # Panics
/// When the system has no more threads.
pub fn watch<T: Send + Sync + 'static>(mut gauge: Gauge, whom: Weak<T>, tell: fn(&T, Affordable)) {
    let run = move || {
        let mut last = None;
        while let Some(target) = whom.upgrade() {
            let now = gauge.look();
            if last.replace(now) != Some(now) {
                tracing::info!(?now, "the machine affords another share of deduplication");
                tell(&target, now);
            }
            drop(target);
            std::thread::sleep(LOOK);
        }
    };
    std::thread::Builder::new().name("machine".to_owned()).spawn(run).expect("the system has threads left");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn pressed(root: &Path, some: u32, full: u32) {
        let text = |some, full| format!("some avg10={some}.25 avg60=0.00 avg300=0.00 total=1\nfull avg10={full}.00 avg60=0.00 total=1\n");
        put(root, "proc/pressure/cpu", &text(some, 0));
        put(root, "proc/pressure/io", &text(99, full));
    }

    #[test]
    fn under_pressure_the_share_falls_slowly_and_rises_fast() {
        let root = tempfile::tempdir().unwrap();
        let mut gauge = Gauge::new(Adapt { pressure: true, ..Adapt::default() }, root.path());
        assert_eq!(gauge.look(), Affordable::default(), "a kernel without it limits nothing");
        let mut look = |some, full| {
            pressed(root.path(), some, full);
            gauge.look().by_pressure.unwrap()
        };
        assert_eq!([look(49, 49), look(50, 0), look(0, 50), look(60, 60)], [100, 90, 80, 70]);
        assert_eq!([look(0, 0), look(0, 0)], [100, 100]);
        let falling: Vec<u8> = (0..9).map(|_| look(80, 0)).collect();
        assert_eq!(falling, [90, 80, 70, 60, 50, 40, 30, 30, 30]);
    }

    #[test]
    fn on_battery_the_share_is_what_is_left_of_it() {
        let root = tempfile::tempdir().unwrap();
        let mut gauge = Gauge::new(Adapt { battery: true, ..Adapt::default() }, root.path());
        let mut look = || gauge.look().by_battery;
        assert_eq!(look(), Some(100), "there is none");
        let supply = |name: &str, file: &str, text: &str| put(root.path(), &format!("sys/class/power_supply/{name}/{file}"), text);
        for (file, text) in [("type", "Battery\n"), ("status", "Discharging\n"), ("capacity", "64\n")] {
            supply("BAT0", file, text);
        }
        assert_eq!(look(), Some(64));
        for (file, text) in [("type", "Battery\n"), ("status", "Discharging\n"), ("capacity", "90\n"), ("scope", "Device\n")] {
            supply("mouse", file, text);
        }
        supply("AC", "type", "Mains\n");
        assert_eq!(look(), Some(64), "the battery of a mouse is another one");
        supply("BAT0", "capacity", "20\n");
        assert_eq!(look(), Some(20));
        supply("BAT0", "capacity", "19\n");
        assert_eq!(look(), Some(0));
        supply("BAT0", "status", "Charging\n");
        assert_eq!(look(), Some(100));
    }

    #[test]
    fn the_smaller_share_counts() {
        let share = |by_pressure, by_battery| Affordable { by_pressure, by_battery }.allowance().in_line;
        assert_eq!([share(None, None), share(Some(40), None), share(Some(40), Some(20)), share(Some(30), Some(80))], [100, 40, 20, 30]);
    }

    #[test]
    fn reasons_are_a_list() {
        let adapt = |duplication, pressure, battery| Ok(Adapt { duplication, pressure, battery });
        assert_eq!(Adapt::parse("none"), adapt(false, false, false));
        assert_eq!(Adapt::parse("all"), adapt(true, true, true));
        assert_eq!(Adapt::parse("battery,duplication"), adapt(true, false, true));
        for typed in ["", "on", "battery,", "all,none"] {
            assert!(Adapt::parse(typed).unwrap_err().contains("separated by commas"), "{typed}");
        }
    }
}
