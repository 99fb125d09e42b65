//! The time that each command of the simulated device takes: by a model of its latencies, or by a flash below it.

use crate::laboratory::flash::Flash;
use onefold_trace::counted::times::Times;
use onefold_trace::model::{Model, Timetable};

/// The times of a device. All times are nanoseconds, and never decrease from call to call.
#[derive(Clone, Debug)]
pub enum DeviceTimes {
    Model(Timetable),
    Flash(Box<Flash>),
}

impl From<Model> for DeviceTimes {
    fn from(model: Model) -> Self {
        Self::Model(Timetable::new(model))
    }
}

impl From<Flash> for DeviceTimes {
    fn from(flash: Flash) -> Self {
        Self::Flash(Box::new(flash))
    }
}

impl DeviceTimes {
    /// Returns the flash, if there is one.
    #[must_use]
    pub fn flash(&self) -> Option<&Flash> {
        match self {
            Self::Model(_) => None,
            Self::Flash(flash) => Some(flash),
        }
    }

    /// Ends the device, and returns its flash, if there is one.
    #[must_use]
    pub fn into_flash(self) -> Option<Flash> {
        match self {
            Self::Model(_) => None,
            Self::Flash(flash) => Some(*flash),
        }
    }

    /// Lets the flash, if there is one, become as full and as fragmented as another one.
    pub fn renew_flash(&mut self, other: &Flash) {
        if let Self::Flash(flash) = self {
            flash.become_like(other);
        }
    }
}

impl Times for DeviceTimes {
    fn read(&mut self, now_ns: u64, at: u64, bytes: u64) -> Result<u64, String> {
        match self {
            Self::Model(timetable) => Times::read(timetable, now_ns, at, bytes),
            Self::Flash(flash) => flash.read(now_ns, at, bytes),
        }
    }

    /// A flash has no write cache, so that FUA changes nothing there.
    fn write(&mut self, now_ns: u64, at: u64, bytes: u64, fua: bool) -> Result<u64, String> {
        match self {
            Self::Model(timetable) => Times::write(timetable, now_ns, at, bytes, fua),
            Self::Flash(flash) => flash.write(now_ns, at, bytes),
        }
    }

    fn flush(&mut self, now_ns: u64) -> u64 {
        match self {
            Self::Model(timetable) => timetable.flush(now_ns),
            Self::Flash(flash) => flash.flush(now_ns),
        }
    }

    fn discard(&mut self, now_ns: u64, at: u64, bytes: u64) -> Result<u64, String> {
        match self {
            Self::Model(timetable) => Times::discard(timetable, now_ns, at, bytes),
            Self::Flash(flash) => flash.trim(now_ns, at, bytes),
        }
    }
}
