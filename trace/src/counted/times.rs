//! The time that each command of a simulated device takes.

use crate::model::{Model, Timetable};

/// The times of a device. All times are nanoseconds, and never decrease from call to call.
pub trait Times {
    /// Returns the time at which a read of `bytes` at byte `at` that is issued now is done.
    ///
    /// # Errors
    /// Fails if the device ends before it.
    fn read(&mut self, now_ns: u64, at: u64, bytes: u64) -> Result<u64, String>;

    /// Returns the time at which a write that is issued now is done.
    ///
    /// # Errors
    /// Fails if the device ends before it.
    fn write(&mut self, now_ns: u64, at: u64, bytes: u64, fua: bool) -> Result<u64, String>;

    /// Returns the time at which a flush that is issued now is done.
    fn flush(&mut self, now_ns: u64) -> u64;

    /// Returns the time at which a discard that is issued now is done.
    ///
    /// # Errors
    /// Fails if the device ends before it.
    fn discard(&mut self, now_ns: u64, at: u64, bytes: u64) -> Result<u64, String>;
}

impl From<Model> for Timetable {
    fn from(model: Model) -> Self {
        Self::new(model)
    }
}

impl Times for Timetable {
    fn read(&mut self, now_ns: u64, _: u64, bytes: u64) -> Result<u64, String> {
        Ok(Self::read(self, now_ns, bytes))
    }

    fn write(&mut self, now_ns: u64, _: u64, bytes: u64, fua: bool) -> Result<u64, String> {
        Ok(if fua { self.write_fua(now_ns, bytes) } else { Self::write(self, now_ns, bytes) })
    }

    fn flush(&mut self, now_ns: u64) -> u64 {
        Self::flush(self, now_ns)
    }

    fn discard(&mut self, now_ns: u64, _: u64, _: u64) -> Result<u64, String> {
        Ok(Self::discard(self, now_ns))
    }
}
