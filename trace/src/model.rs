//! Models of devices: the time that a command takes, as a function of its start and its size alone.
//!
//! 1. A model is pure: it has no clock and does not wait. A simulation uses the computed time as it is; a wrapper of a live device waits
//!    until then.
//! 2. A command occupies one of the device's queue places, then the bus for the time that its bytes need, then takes its latency, which
//!    grows with its size. A flush waits for all writes before it, then takes its own time; commands issued meanwhile proceed. A write with
//!    FUA takes as long as a write followed by a flush that waits for nothing else.

use std::fmt::Write as _;

/// A latency by size: (bytes, nanoseconds), ascending in bytes.
type Curve = &'static [(u64, u64)];

/// A kind of device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    pub name: &'static str,
    /// The origin of its numbers.
    pub source: &'static str,
    pub read: Curve,
    pub write: Curve,
    pub flush_ns: u64,
    /// The number of commands that the device works on at once; none for no limit.
    pub commands_max: Option<usize>,
    /// The rate of the bus that all commands share, in both directions; none if the latencies already include it.
    pub bus_bytes_per_s: Option<u64>,
}

const KIB: u64 = 1024;
const US: u64 = 1000;

const fn flat(model: Model, read: Curve, write: Curve, flush_us: u64, bus_bytes_per_s: u64) -> Model {
    Model { read, write, flush_ns: flush_us * US, bus_bytes_per_s: Some(bus_bytes_per_s), ..model }
}

const INSTANT: Model = Model {
    name: "instant",
    source: "no time passes in the device",
    read: &[(4 * KIB, 0)],
    write: &[(4 * KIB, 0)],
    flush_ns: 0,
    commands_max: None,
    bus_bytes_per_s: None,
};

const ORDERS: &str = "orders of magnitude from data sheets and public fio runs of such devices; no particular product";

/// The models to choose from.
///
/// The two models from the paper give the latency of random reads and writes by size, and no latency of flushes: writes that take
/// milliseconds are synchronous and include the flush.
pub const MODELS: [Model; 7] = [
    INSTANT,
    Model {
        name: "tablet",
        source: "OrderMergeDedup section 4.1: the 64 GB flash of an Asus T100; eMMC without a command queue",
        read: &[
            (4 * KIB, 270 * US),
            (8 * KIB, 320 * US),
            (16 * KIB, 400 * US),
            (32 * KIB, 630 * US),
            (64 * KIB, 890 * US),
            (128 * KIB, 1450 * US),
        ],
        write: &[
            (4 * KIB, 2910 * US),
            (8 * KIB, 2860 * US),
            (16 * KIB, 4330 * US),
            (32 * KIB, 4960 * US),
            (64 * KIB, 7640 * US),
            (128 * KIB, 11_600 * US),
        ],
        commands_max: Some(1),
        ..INSTANT
    },
    Model {
        name: "850pro",
        source: "OrderMergeDedup section 4.1: a Samsung 850 Pro of 256 GB; 32 commands at once by SATA's queue",
        read: &[
            (4 * KIB, 120 * US),
            (8 * KIB, 130 * US),
            (16 * KIB, 150 * US),
            (32 * KIB, 180 * US),
            (64 * KIB, 280 * US),
            (128 * KIB, 450 * US),
        ],
        write: &[
            (4 * KIB, 4700 * US),
            (8 * KIB, 4960 * US),
            (16 * KIB, 5450 * US),
            (32 * KIB, 6130 * US),
            (64 * KIB, 7180 * US),
            (128 * KIB, 7350 * US),
        ],
        commands_max: Some(32),
        ..INSTANT
    },
    flat(Model { name: "emmc", source: ORDERS, ..INSTANT }, &[(4 * KIB, 250 * US)], &[(4 * KIB, 350 * US)], 8000, 90_000_000),
    flat(Model { name: "ufs", source: ORDERS, ..INSTANT }, &[(4 * KIB, 90 * US)], &[(4 * KIB, 50 * US)], 1000, 700_000_000),
    flat(Model { name: "sata", source: ORDERS, ..INSTANT }, &[(4 * KIB, 110 * US)], &[(4 * KIB, 60 * US)], 1500, 450_000_000),
    flat(Model { name: "nvme", source: ORDERS, ..INSTANT }, &[(4 * KIB, 80 * US)], &[(4 * KIB, 20 * US)], 500, 2_000_000_000),
];

impl Model {
    /// Returns the model with this name.
    ///
    /// # Errors
    /// Fails if there is none, and lists the known names.
    pub fn named(name: &str) -> Result<Self, String> {
        MODELS.into_iter().find(|m| m.name == name).ok_or_else(|| {
            let mut text = format!("no device model is called {name}; there are");
            MODELS.iter().enumerate().for_each(|(i, m)| {
                let _ = write!(text, "{} {}", if i == 0 { "" } else { "," }, m.name);
            });
            text
        })
    }
}

/// Returns the latency of a command of `bytes`: linear between the points, constant before the first, and extrapolated beyond the last.
fn latency_ns(curve: Curve, bytes: u64) -> u64 {
    let at = curve.partition_point(|&(size, _)| size < bytes).clamp(1, curve.len());
    let (size, ns) = curve[at - 1];
    let Some(&(next_size, next_ns)) = curve.get(at) else {
        let Some(&(before_size, before_ns)) = at.checked_sub(2).and_then(|i| curve.get(i)) else { return ns };
        return ns + bytes.saturating_sub(size) * ns.saturating_sub(before_ns) / (size - before_size);
    };
    let part = bytes.saturating_sub(size) * ns.abs_diff(next_ns) / (next_size - size);
    if next_ns >= ns { ns + part } else { ns - part }
}

/// The schedule of a device. Times are nanoseconds since an arbitrary moment and never decrease from call to call.
#[derive(Clone, Debug)]
pub struct Timetable {
    model: Model,
    /// The time at which each queue place becomes free; empty if their number has no limit.
    free_ns: Vec<u64>,
    bus_free_ns: u64,
    writes_done_ns: u64,
}

impl Timetable {
    /// Returns the schedule of an idle device.
    #[must_use]
    pub fn new(model: Model) -> Self {
        Self { model, free_ns: vec![0; model.commands_max.unwrap_or(0)], bus_free_ns: 0, writes_done_ns: 0 }
    }

    fn command(&mut self, now_ns: u64, moved_bytes: u64, latency_ns: u64) -> u64 {
        let place = self.free_ns.iter_mut().min_by_key(|free| **free);
        let begin = place.as_ref().map_or(now_ns, |free| now_ns.max(**free));
        let moved = match self.model.bus_bytes_per_s {
            Some(bytes_per_s) => {
                self.bus_free_ns = self.bus_free_ns.max(begin) + moved_bytes * 1_000_000_000 / bytes_per_s;
                self.bus_free_ns
            }
            None => begin,
        };
        let done = moved + latency_ns;
        if let Some(free) = place {
            *free = done;
        }
        done
    }

    /// Returns the time at which a write that is issued now completes.
    pub fn write(&mut self, now_ns: u64, bytes: u64) -> u64 {
        self.write_within(now_ns, bytes, latency_ns(self.model.write, bytes))
    }

    /// Returns the time at which a write with FUA that is issued now completes.
    pub fn write_fua(&mut self, now_ns: u64, bytes: u64) -> u64 {
        self.write_within(now_ns, bytes, latency_ns(self.model.write, bytes) + self.model.flush_ns)
    }

    fn write_within(&mut self, now_ns: u64, bytes: u64, latency_ns: u64) -> u64 {
        let done = self.command(now_ns, bytes, latency_ns);
        self.writes_done_ns = self.writes_done_ns.max(done);
        done
    }

    /// Returns the time at which a read that is issued now completes.
    pub fn read(&mut self, now_ns: u64, bytes: u64) -> u64 {
        self.command(now_ns, bytes, latency_ns(self.model.read, bytes))
    }

    /// Returns the time at which a flush that is issued now completes.
    pub fn flush(&mut self, now_ns: u64) -> u64 {
        self.writes_done_ns.max(now_ns) + self.model.flush_ns
    }

    /// Returns the time at which a discard that is issued now completes: it moves no bytes and takes as long as a small write.
    pub fn discard(&mut self, now_ns: u64) -> u64 {
        now_ns + latency_ns(self.model.write, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_share_the_bus_and_a_flush_waits_for_the_writes_before_it() {
        let bus = Model { read: &[(4096, 10)], write: &[(4096, 100)], flush_ns: 1000, bus_bytes_per_s: Some(1_000_000_000), ..INSTANT };
        let mut t = Timetable::new(bus);
        assert_eq!(t.write(0, 4096), 4196);
        assert_eq!(t.write(0, 4096), 8292);
        assert_eq!(t.read(9000, 4096), 13_106);
        assert_eq!(t.flush(0), 9292);
        assert_eq!(t.write_fua(20_000, 4096), 25_196, "it waits for no other write");
    }

    #[test]
    fn a_latency_follows_its_table_and_goes_on_beyond_it() {
        let tablet = Model::named("tablet").expect("it is there").write;
        let milliseconds =
            [(512, 2910), (4096, 2910), (6144, 2885), (8192, 2860), (96 << 10, 9620), (128 << 10, 11_600), (256 << 10, 19_520)];
        for (bytes, us) in milliseconds {
            assert_eq!(latency_ns(tablet, bytes), us * US, "{bytes} bytes");
        }
        assert_eq!(latency_ns(INSTANT.read, 1 << 20), 0);
    }

    #[test]
    fn with_a_limit_of_commands_a_command_waits_for_a_place() {
        let mut one = Timetable::new(Model { write: &[(4096, 100)], commands_max: Some(1), ..INSTANT });
        assert_eq!((one.write(0, 4096), one.write(0, 4096), one.flush(0)), (100, 200, 200));
        let mut two = Timetable::new(Model { write: &[(4096, 100)], commands_max: Some(2), ..INSTANT });
        assert_eq!((two.write(0, 4096), two.write(0, 4096), two.write(50, 4096)), (100, 100, 200));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = Model::named("floppy").unwrap_err();
        assert!(error.contains("floppy") && MODELS.iter().all(|m| error.contains(m.name)), "{error}");
    }
}
