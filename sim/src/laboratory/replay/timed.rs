//! A replay of a stored trace, and the processor time that it took.

use crate::laboratory::replay::report::Report;
use crate::laboratory::replay::run::{Plan, replay};
use onefold_engine::units::BLOCK_BYTES;
use onefold_trace::beside;
pub use onefold_trace::beside::name_of;
use onefold_trace::header::Header;
use onefold_trace::record::Record;
use onefold_trace::source::{ReadOptions, Source};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// A report and its speed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Timed {
    #[serde(flatten)]
    pub report: Report,
    /// The processor time of the thread that replayed: the scheme, the simulated device, the accounts, and the reading of the trace. No
    /// content is hashed.
    pub cpu_seconds: f64,
    /// The number of block writes of the whole trace for each of these seconds.
    pub writes_per_second: f64,
}

impl fmt::Display for Timed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.report)?;
        writeln!(f, "  {:.0} block writes a second ({:.2} s of CPU)", self.writes_per_second, self.cpu_seconds)
    }
}

/// Replays a trace for a volume of `blocks`.
///
/// # Errors
/// Fails like [`replay`].
pub fn replay_timed<E: fmt::Display>(
    name: &str,
    records: impl Iterator<Item = Result<Record, E>>,
    blocks: u64,
    plan: &Plan,
) -> Result<Timed, String> {
    let began = cpu_time();
    let report = replay(name, records, blocks, plan)?;
    let cpu_seconds = (cpu_time() - began).as_secs_f64();
    #[allow(clippy::cast_precision_loss)] // counts of one run are far below 2^52
    let writes_per_second = if cpu_seconds > 0.0 { report.whole.client_units as f64 / cpu_seconds } else { 0.0 };
    Ok(Timed { report, cpu_seconds, writes_per_second })
}

/// Replays the trace at a path.
///
/// # Errors
/// Fails if it cannot be opened or does not give the size of its device, and like [`replay`].
pub fn replay_file(trace: &Path, plan: &Plan) -> Result<Timed, String> {
    let name = name_of(trace);
    let records = Source::open(trace, &ReadOptions::default()).map_err(|e| e.to_string())?;
    let blocks = blocks_of(trace, &records.header())?;
    replay_timed(&name, records, blocks, plan)
}

/// Returns the blocks of the traced device, from the trace itself or from `NAME.json` beside it.
///
/// # Errors
/// Fails if neither gives them.
pub fn blocks_of(trace: &Path, header: &Header) -> Result<u64, String> {
    if let Some(bytes) = header.device_bytes {
        return Ok(bytes.get().div_ceil(BLOCK_BYTES));
    }
    Ok(beside::device_bytes(trace)?.get().div_ceil(BLOCK_BYTES))
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}
