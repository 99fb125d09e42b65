//! The report of `onefold-lab flash`: one struct, two renderings.

use onefold::output::Report;
use onefold::output::size::Size;
use onefold::output::table::Table;
use onefold_sim::laboratory::flash::aging::Past;
use onefold_sim::laboratory::flash::{Cleaning, Latencies, Shape};
use onefold_sim::laboratory::replay::figures::Latency;
use onefold_sim::laboratory::replay::flash::FlashFigures;
use onefold_sim::laboratory::replay::report::Report as Replayed;
use serde::Serialize;
use std::collections::BTreeMap;

/// By how many per cent a scheme needs less than the bare flash; negative where it needs more. None where the bare flash needs nothing.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Saved {
    pub host_pages: Option<f64>,
    pub moved_pages: Option<f64>,
    pub collections: Option<f64>,
    pub response_mean: Option<f64>,
}

/// A trace on one scheme: the figures of its measured phase.
#[derive(Clone, Debug, Serialize)]
pub struct OnScheme {
    pub scheme: String,
    pub phase: String,
    pub client_units: u64,
    pub device_units: u64,
    /// The share of the client's units that had to be written, whose content no block held.
    pub ideal: f64,
    /// The pages of the flash that hold something when the measured phase begins.
    pub held_pages: u64,
    pub flash: FlashFigures,
    /// Latencies by "write", "read", "flush", "fua", "discard".
    pub latency_us: BTreeMap<String, Latency>,
    /// The comparison with the bare flash; none for the bare flash.
    pub saved_percent: Option<Saved>,
}

impl OnScheme {
    /// Takes the figures of a replay, and compares them with those of the bare flash.
    pub fn of(report: &Replayed, held_pages: u64, bare: Option<&Self>) -> Self {
        let flash = report.measured.flash.unwrap_or_default();
        Self {
            scheme: report.scheme.clone(),
            phase: report.phase.clone(),
            client_units: report.measured.client_units,
            device_units: report.measured.device_units_all,
            ideal: report.measured.ideal,
            held_pages,
            flash,
            latency_us: report.measured.latency_us.clone(),
            saved_percent: bare.map(|bare| saved(&bare.flash, &flash)),
        }
    }
}

fn saved(bare: &FlashFigures, scheme: &FlashFigures) -> Saved {
    let percent = |bare: f64, scheme: f64| (bare > 0.0).then(|| 100.0 * (1.0 - scheme / bare));
    #[allow(clippy::cast_precision_loss)] // counts of one run are far below 2^52
    let of = |count: fn(&FlashFigures) -> u64| percent(count(bare) as f64, count(scheme) as f64);
    Saved {
        host_pages: of(|flash| flash.counts.host_pages),
        moved_pages: of(|flash| flash.counts.moved_pages),
        collections: of(|flash| flash.counts.collections),
        response_mean: percent(bare.response_us.mean, scheme.response_us.mean),
    }
}

/// A trace on every scheme, the bare flash first.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    pub trace: String,
    pub malformed_lines: u64,
    pub flash_bytes: u64,
    pub schemes: Vec<OnScheme>,
}

/// The mean over all traces of what a scheme saves.
#[derive(Clone, Debug, Serialize)]
struct Mean {
    scheme: String,
    saved_percent: Saved,
}

/// The whole report.
#[derive(Debug, Serialize)]
pub struct FlashReport {
    page_bytes: u64,
    block_pages: u32,
    planes: u64,
    spare: f64,
    cleaning: Cleaning,
    latencies: Latencies,
    past: Past,
    /// "full", or "held": what each scheme's own device holds.
    begin: &'static str,
    persistence: &'static str,
    traces: Vec<Compared>,
    means: Vec<Mean>,
}

impl FlashReport {
    /// Makes the report of these traces.
    pub fn new(shape: Shape, past: Past, begin: &'static str, persistence: &'static str, traces: Vec<Compared>) -> Self {
        let Shape { page_bytes, block_pages, planes, spare, cleaning, latencies, bytes: _ } = shape;
        let schemes = traces.first().map_or(0, |first| first.schemes.len());
        let means = (1..schemes).map(|scheme| mean(&traces, scheme)).collect();
        Self { page_bytes, block_pages, planes, spare, cleaning, latencies, past, begin, persistence, traces, means }
    }
}

fn mean(traces: &[Compared], scheme: usize) -> Mean {
    let of = |part: fn(&Saved) -> Option<f64>| {
        let all: Vec<f64> = traces.iter().filter_map(|trace| trace.schemes[scheme].saved_percent.as_ref().and_then(part)).collect();
        #[allow(clippy::cast_precision_loss)] // a few traces
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    };
    let saved_percent = Saved {
        host_pages: of(|saved| saved.host_pages),
        moved_pages: of(|saved| saved.moved_pages),
        collections: of(|saved| saved.collections),
        response_mean: of(|saved| saved.response_mean),
    };
    Mean { scheme: traces[0].schemes[scheme].scheme.clone(), saved_percent }
}

/// Shows a change against the bare flash.
fn change(saved: Option<f64>) -> String {
    saved.map_or_else(|| "-".to_owned(), |percent| format!("{:+.1} %", -percent))
}

fn row(on: &OnScheme) -> Vec<String> {
    let (flash, saved) = (&on.flash, on.saved_percent.unwrap_or_default());
    let (response, us) = (&flash.response_us, |us: f64| format!("{us:.0}"));
    vec![
        on.scheme.clone(),
        on.held_pages.to_string(),
        flash.counts.host_pages.to_string(),
        flash.counts.trimmed_pages.to_string(),
        flash.counts.moved_pages.to_string(),
        flash.counts.collections.to_string(),
        change(saved.collections),
        format!("{:.2}", flash.amplification),
        format!("{:.2}", flash.wear.mean),
        flash.wear.max.to_string(),
        us(response.mean),
        us(response.p95),
        us(response.p99),
        us(response.max),
        change(saved.response_mean),
    ]
}

const HEADS: [&str; 15] = [
    "scheme",
    "held",
    "pages",
    "trimmed",
    "moved",
    "collections",
    "change",
    "amplification",
    "erases",
    "most",
    "mean us",
    "95 %",
    "99 %",
    "max",
    "change",
];

impl Report for FlashReport {
    const NAME: &'static str = "flash";

    fn table(&self) -> Table {
        let table = Table::new().line(format!(
            "pages of {} bytes, {} in a block, {} planes, {:.1} % spare, {} cleaning; {}, overwritten {} times; {} persistence",
            self.page_bytes,
            self.block_pages,
            self.planes,
            self.spare * 100.0,
            self.cleaning.name(),
            if self.begin == "held" { "full of what is held".to_owned() } else { format!("{:.0} % full", self.past.full * 100.0) },
            self.past.overwrites,
            self.persistence
        ));
        let table = self.traces.iter().fold(table, |table, trace| {
            let malformed = if trace.malformed_lines > 0 { format!(", {} malformed lines", trace.malformed_lines) } else { String::new() };
            let phase = trace.schemes.first().map_or("", |first| &first.phase);
            table
                .line(format!("\n{}, phase {phase}, on {}{malformed}", trace.trace, Size(trace.flash_bytes)))
                .grid(&HEADS, trace.schemes.iter().map(row).collect())
        });
        self.means.iter().fold(table.line(""), |table, mean| {
            let saved = &mean.saved_percent;
            table.line(format!(
                "{}, mean of {}: pages {}, moved {}, collections {}, mean response {}",
                mean.scheme,
                self.traces.len(),
                change(saved.host_pages),
                change(saved.moved_pages),
                change(saved.collections),
                change(saved.response_mean)
            ))
        })
    }
}
