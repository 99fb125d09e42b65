//! How long a device takes. Only the engine's timers (the commit period, the non-critical delay, anticipation) can tell one pace from another.
//!
//! Commands take turns on the bus for the time that their bytes need, then each takes its latency, beside the others. A flush waits for
//! every write before it, then takes its own time; what is issued meanwhile goes on.

/// A kind of device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    pub name: &'static str,
    /// Bytes a second, both ways.
    pub bytes_per_s: u64,
    pub write_ns: u64,
    pub read_ns: u64,
    pub flush_ns: u64,
    /// Between two requests of the client.
    pub think_ns: u64,
}

/// The devices to choose from: orders of magnitude from data sheets and public fio runs of such devices; none is a certain product.
pub const PACES: [Pace; 4] = [
    Pace { name: "emmc", bytes_per_s: 90_000_000, write_ns: 350_000, read_ns: 250_000, flush_ns: 8_000_000, think_ns: 50_000 },
    Pace { name: "sata", bytes_per_s: 450_000_000, write_ns: 60_000, read_ns: 110_000, flush_ns: 1_500_000, think_ns: 10_000 },
    Pace { name: "nvme", bytes_per_s: 2_000_000_000, write_ns: 20_000, read_ns: 80_000, flush_ns: 500_000, think_ns: 5_000 },
    // A card and a client that takes its time: the delay of 30 s passes again and again.
    Pace { name: "card", bytes_per_s: 20_000_000, write_ns: 1_000_000, read_ns: 500_000, flush_ns: 30_000_000, think_ns: 5_000_000 },
];

impl Pace {
    /// The pace with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        PACES.into_iter().find(|p| p.name == name)
    }
}

/// The device's timetable.
#[derive(Debug)]
pub struct Timetable {
    pace: Pace,
    bus_free_ns: u64,
    writes_done_ns: u64,
}

impl Timetable {
    /// An idle device.
    #[must_use]
    pub fn new(pace: Pace) -> Self {
        Self { pace, bus_free_ns: 0, writes_done_ns: 0 }
    }

    fn moved(&mut self, now_ns: u64, bytes: u64) -> u64 {
        self.bus_free_ns = self.bus_free_ns.max(now_ns) + bytes * 1_000_000_000 / self.pace.bytes_per_s;
        self.bus_free_ns
    }

    /// When a write that is issued now completes.
    pub fn write(&mut self, now_ns: u64, bytes: u64) -> u64 {
        let done = self.moved(now_ns, bytes) + self.pace.write_ns;
        self.writes_done_ns = self.writes_done_ns.max(done);
        done
    }

    /// When a read that is issued now completes.
    pub fn read(&mut self, now_ns: u64, bytes: u64) -> u64 {
        self.moved(now_ns, bytes) + self.pace.read_ns
    }

    /// When a flush that is issued now completes.
    pub fn flush(&mut self, now_ns: u64) -> u64 {
        self.writes_done_ns.max(now_ns) + self.pace.flush_ns
    }

    /// When a discard that is issued now completes: it moves no bytes.
    pub fn discard(&mut self, now_ns: u64) -> u64 {
        now_ns + self.pace.write_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_share_the_bus_and_a_flush_waits_for_the_writes_before_it() {
        let mut t = Timetable::new(Pace { name: "", bytes_per_s: 1_000_000_000, write_ns: 100, read_ns: 10, flush_ns: 1000, think_ns: 0 });
        assert_eq!(t.write(0, 4096), 4196);
        assert_eq!(t.write(0, 4096), 8292);
        assert_eq!(t.read(9000, 4096), 13_106);
        assert_eq!(t.flush(0), 9292);
    }
}
