//! `watch`: shows what wears a disk, and what a volume would have written instead.

mod screen;

use crate::bios::{Bios, Device};
use crate::exit::{Exit, Failed, Outcome};
use crate::files::stopped_by_signals;
use crate::forecast::{Forecasts, Written};
use crate::output::size::Size;
use crate::output::{Style, complain, print};
use crate::pages::PageOption;
use crate::runtime::recording::idle::yield_to_others;
use crate::runtime::recording::{Naming, fingerprinter};
use crate::watched::Account;
use crate::watched::life::{Age, age_of};
use crate::watched::page::page;
use crate::watched::report::Watched;
use onefold_engine::units::{count, index};
use onefold_trace::record::Record;
use screen::Screen;
use std::collections::VecDeque;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The most blocks of records that are not taken into account yet; each takes some 30 bytes.
const QUEUED_BLOCKS_MAX: u64 = 65_536;
/// The longest wait for requests.
const LOOK: Duration = Duration::from_millis(100);
/// The time between two pictures of the screen.
const DRAW: Duration = Duration::from_secs(1);
/// The memory that the program takes by itself, in bytes.
const PROGRAM_BYTES: u64 = 10 << 20;
/// The parts of the rest, in sixteenths: the ring, the forecasts, and contents. The others are for what waits, and for tables.
const RING_SHARE: u64 = 4;
const FORECASTS_SHARE: u64 = 6;
const CONTENTS_SHARE: u64 = 2;
const MEMORY_BYTES_MIN: u64 = 16 << 20;
const DEFAULT_BYTES: (u64, u64) = (32 << 20, 256 << 20);
const RING_BYTES: (u64, u64) = (1 << 20, 64 << 20);

/// Watch a disk: which programs and files write to it, and what a volume would have written
///
/// Needs root, and nothing of Onefold below it: neither a volume nor a file system of a special kind. The kernel's block layer hands over
/// each request as it is submitted. Nothing is written to the disk, and no content is kept: blocks are known by fingerprints with a key
/// that is thrown away.
///
/// The report tells bytes, blocks and flushes by program, by kind of file, by file and by hour; what the file system's journal and
/// metadata take; duplicates, zeros, and what compresses; and what a volume would have written, which the engine itself finds out, for a
/// volume that is blank at first. Where the disk tells its age (an eMMC, or any other by smartctl if that is installed), it says how long
/// the disk lasts at this rate.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Block device: a disk or a partition. Default: the one that / is on.
    disk: Option<PathBuf>,
    /// The time to watch, such as 90s, 10m, 24h or 7d. Default: until Ctrl-C.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    time: Option<Duration>,
    /// Memory of this process, at most. Default: a 64th of the machine's, from 32M to 256M. The report counts what does not
    /// fit.
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    memory: Option<Size>,
    /// Do not find out what a volume would have written.
    #[arg(long)]
    no_forecast: bool,
    #[command(flatten)]
    page: PageOption,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

fn parse_memory(typed: &str) -> Result<Size, String> {
    Size::at_least(typed, MEMORY_BYTES_MIN)
}

/// Returns the memory to watch in where none is given.
#[allow(clippy::useless_conversion)] // the size of memory has 32 bits on some machines
fn default_memory() -> u64 {
    let info = rustix::system::sysinfo();
    let all = u64::from(info.totalram) * u64::from(info.mem_unit);
    (all / 64).clamp(DEFAULT_BYTES.0, DEFAULT_BYTES.1)
}

/// Reads a time: a number and its unit.
fn parse_time(typed: &str) -> Result<Duration, String> {
    let wrong = || "give a number and its unit: 90s, 10m, 24h or 7d".to_owned();
    let (number, unit) = typed.split_at_checked(typed.len().saturating_sub(1)).ok_or_else(wrong)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let time = number.checked_mul(seconds).filter(|time| (1..=366 * 86_400).contains(time));
    time.map(Duration::from_secs).ok_or_else(|| "give a time from a second to a year".to_owned())
}

/// A watch that is under way.
struct Watching {
    device: Device,
    bios: Bios,
    /// Records that are not taken into account yet: content comes first, as long as it waits in the ring.
    queued: VecDeque<Record>,
    queued_blocks: u64,
    account: Account,
    forecasts: Option<Forecasts>,
    age: Option<Age>,
    began: Instant,
}

/// Watches until the time is over or somebody has seen enough, and prints the report.
///
/// # Errors
/// When there is no such disk, the kernel lets this process see nothing, or the page cannot be written.
pub fn run(arguments: &Arguments) -> Outcome {
    let stop = stopped_by_signals()?;
    let device = arguments.disk.as_deref().map_or_else(Device::of_root, Device::at)?;
    let page_file = arguments.page.begin()?;
    let mut watching = Watching::begin(device, arguments)?;
    let mut screen = if std::io::stdout().is_terminal() && !arguments.json { Some(Screen::open()?) } else { None };
    if screen.is_none() {
        complain(format_args!("watching {}; Ctrl-C ends it", watching.device.path.display()));
        watching.bios.blind_spots().iter().for_each(complain);
    }
    let mut drawn = None::<Instant>;
    let is_over = |watching: &Watching| arguments.time.is_some_and(|time| watching.began.elapsed() >= time);
    while !is_over(&watching) && !stop.load(Ordering::Relaxed) && !screen.as_mut().is_some_and(Screen::is_closed) {
        watching.go_on()?;
        if let Some(screen) = screen.as_mut().filter(|_| drawn.is_none_or(|at| at.elapsed() >= DRAW)) {
            screen.draw(&watching.report_so_far())?;
            drawn = Some(Instant::now());
        }
    }
    drop(screen);
    let report = watching.end()?;
    if let Some(file) = page_file {
        file.end(page(&report))?;
    }
    print(&report, Style::of(arguments.json));
    Ok(())
}

impl Watching {
    fn begin(device: Device, arguments: &Arguments) -> Outcome<Self> {
        let memory = arguments.memory.map_or_else(default_memory, |size| size.0) - PROGRAM_BYTES;
        let system = |what: &str, e: String| Failed::new(Exit::System, format!("{what}: {e}"));
        let fingerprinter = fingerprinter(None, &Naming::Own).map_err(|e| system("no key", e.to_string()))?;
        let ring = (memory / 16 * RING_SHARE).clamp(RING_BYTES.0, RING_BYTES.1);
        let age = age_of(device.place.disk, &device.path);
        let forecasts = match arguments.no_forecast {
            true => None,
            false => Some(
                Forecasts::new(device.place.bytes(), memory / 16 * FORECASTS_SHARE)
                    .map_err(|e| system("there can be no volume like this disk", e).next("`--no-forecast` watches all the same."))?,
            ),
        };
        let bios = Bios::begin(&device, index(1 << ring.ilog2()), false, fingerprinter)?;
        yield_to_others();
        let (queued, queued_blocks) = (VecDeque::new(), 0);
        Ok(Self {
            device,
            bios,
            queued,
            queued_blocks,
            account: Account::new(memory / 16 * CONTENTS_SHARE),
            forecasts,
            age,
            began: Instant::now(),
        })
    }

    fn go_on(&mut self) -> Outcome {
        let patience = if self.queued.is_empty() { LOOK } else { Duration::ZERO };
        let Self { bios, queued, queued_blocks, .. } = self;
        bios.wait(patience)?;
        bios.gather(|record| {
            *queued_blocks += count(record.blocks.len());
            queued.push_back(record);
        });
        while !self.bios.is_busy() || self.queued_blocks > QUEUED_BLOCKS_MAX {
            let Some(record) = self.queued.pop_front() else { break };
            self.take(record);
        }
        Ok(())
    }

    fn take(&mut self, record: Record) {
        self.queued_blocks -= count(record.blocks.len());
        self.account.take(&record);
        if let Some(forecasts) = &mut self.forecasts {
            forecasts.take(record);
        }
    }

    fn report_so_far(&self) -> Watched {
        let volumes = self.forecasts.as_ref().map(Forecasts::so_far).unwrap_or_default();
        self.report(volumes, self.began.elapsed())
    }

    fn report(&self, volumes: Vec<Written>, time: Duration) -> Watched {
        let Device { path, place } = &self.device;
        let report = Watched::new(path.clone(), place.bytes(), time, &self.account, volumes, self.age.clone());
        let blind_spots = self.bios.blind_spots().into_iter().map(str::to_owned).collect();
        Watched { missing: self.bios.missing(), blind_spots, ..report }
    }

    fn end(mut self) -> Outcome<Watched> {
        let time = self.began.elapsed();
        self.go_on()?;
        while let Some(record) = self.queued.pop_front() {
            self.take(record);
        }
        let volumes = self.forecasts.take().map(Forecasts::end).unwrap_or_default();
        Ok(self.report(volumes, time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        let seconds = ["90s", "10m", "24h", "7d"].map(|typed| parse_time(typed).map(|time| time.as_secs()));
        assert_eq!(seconds, [Ok(90), Ok(600), Ok(86_400), Ok(604_800)]);
        for wrong in ["", "5", "m", "0s", "-1h", "1.5h", "400d", "1w", "1é", "99999999999999999999d"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }
}
