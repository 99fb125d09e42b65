//! `onefold-sim replay`.

use crate::replay::report::Report;
use crate::replay::run::{Plan, replay};
use crate::replay::scheme::Scheme;
use onefold_engine::settings::Persistence;
use onefold_engine::units::BLOCK_BYTES;
use onefold_trace::model::Model;
use onefold_trace::source::{How, Source};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// A report, and how fast it came.
#[derive(Serialize)]
struct Timed {
    #[serde(flatten)]
    report: Report,
    cpu_seconds: f64,
    /// Block writes a second of this thread's processor time, the reading of the trace included.
    writes_per_second: f64,
}

/// `replay TRACE... [--scheme S|all] [--persistence weak|strong] [--outstanding N] [--device-model M] [--blocks N] [--verify] [--json]`.
///
/// # Errors
/// What was typed wrong, or what the replay found.
pub fn command(words: &[String]) -> Result<ExitCode, String> {
    let (mut traces, mut schemes, mut plan, mut blocks, mut json) =
        (Vec::new(), vec![Scheme::OrderedAnticipate], Plan::default(), None, false);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} wants a value"));
        let number = |text: &str| text.parse::<u64>().ok().filter(|&n| n > 0).ok_or_else(|| format!("{word} wants a number above 0"));
        match word.as_str() {
            "--json" => json = true,
            "--verify" => plan.verify = true,
            "--scheme" => match value()?.as_str() {
                "all" => schemes = Scheme::ALL.to_vec(),
                name => schemes = vec![Scheme::named(name)?],
            },
            "--persistence" => {
                plan.persistence = match value()?.as_str() {
                    "weak" => Persistence::Weak,
                    "strong" => Persistence::Strong,
                    other => return Err(format!("--persistence {other}: there are weak and strong")),
                }
            }
            "--outstanding" => plan.outstanding_max = usize::try_from(number(value()?)?).map_err(|e| e.to_string())?,
            "--device-model" => plan.model = Model::named(value()?)?,
            "--blocks" => blocks = Some(number(value()?)?),
            option if option.starts_with('-') => {
                return Err(format!(
                    "replay has no option {option}; it has --scheme, --persistence, --outstanding, --device-model, --blocks, --verify, --json"
                ));
            }
            trace => traces.push(PathBuf::from(trace)),
        }
    }
    if traces.is_empty() {
        return Err("replay wants a trace: a folder, or a text of any form that trace import reads".to_owned());
    }
    for trace in &traces {
        for &scheme in &schemes {
            let timed = timed(trace, blocks, &Plan { scheme, ..plan.clone() })?;
            if json {
                println!("{}", serde_json::to_string(&timed).map_err(|e| e.to_string())?);
            } else {
                println!("{}  {:.0} block writes a second ({:.2} s of CPU)", timed.report, timed.writes_per_second, timed.cpu_seconds);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn timed(trace: &Path, blocks: Option<u64>, plan: &Plan) -> Result<Timed, String> {
    let name = name_of(trace);
    let began = cpu_time();
    let records = Source::open(trace, &How::default()).map_err(|e| e.to_string())?;
    let told = blocks.or_else(|| records.header().device_bytes.map(|bytes| bytes.get().div_ceil(BLOCK_BYTES)));
    let blocks = told.map_or_else(|| blocks_beside(trace, &name), Ok)?;
    let report = replay(&name, records, blocks, plan).map_err(|e| format!("{name}, {}: {e}", plan.scheme.name()))?;
    let cpu_seconds = (cpu_time() - began).as_secs_f64();
    #[allow(clippy::cast_precision_loss)] // counts of one run are far below 2^52
    let writes_per_second = report.whole.client_units as f64 / cpu_seconds;
    Ok(Timed { report, cpu_seconds, writes_per_second })
}

fn name_of(trace: &Path) -> String {
    let file = trace.file_name().unwrap_or_default().to_string_lossy();
    file.split('.').next().unwrap_or_default().to_owned()
}

/// The size of the traced device, from `NAME.json` beside the trace.
fn blocks_beside(trace: &Path, name: &str) -> Result<u64, String> {
    let path = trace.with_file_name(format!("{name}.json"));
    let text =
        std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}; the size of the device can be given by --blocks", path.display()))?;
    let facts: serde_json::Value = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    facts["size_4k"]
        .as_u64()
        .ok_or_else(|| format!("{} does not say size_4k; the size of the device can be given by --blocks", path.display()))
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}
