//! The report of a watch as one page of HTML with pictures.

use super::amounts::{Hour, Named};
use super::report::{Watched, share, size_of_units};
use crate::output::charts::{Bar, DrawError, bars};
use crate::output::html::{document, escape, table};
use crate::output::size::Size;
use std::fmt::Write as _;

/// The most bars of a picture, and rows of a table.
const BARS_MAX: usize = 20;
const ROWS_MAX: usize = 50;

/// Returns the page.
///
/// # Errors
/// Fails if a picture cannot be drawn.
pub fn page(report: &Watched) -> Result<String, DrawError> {
    let title = format!("What wears {}", report.disk.display());
    let all = report.totals.all;
    let mut body = format!(
        "<h1>{}</h1>\n<p>{} in {} requests and {} flushes within {:.0} seconds.</p>\n",
        escape(&title),
        Size(all.bytes),
        all.requests,
        all.flushes,
        report.seconds
    );
    for spot in &report.blind_spots {
        let _ = writeln!(body, "<p>{}</p>", escape(spot));
    }
    let _ = writeln!(body, "<h2>What a volume would have written</h2>\n<div class=\"wide\">{}</div>", volumes(report)?);
    body.push_str(&table(&Watched::VOLUME_HEADS, report.volume_rows()));
    if let Some(sentence) = report.caveat() {
        let _ = writeln!(body, "<p>{}</p>", escape(&sentence));
    }
    let _ = writeln!(
        body,
        "<h2>In all</h2>\n{}",
        table(&["", ""], report.facts().into_iter().map(|(name, value)| vec![name.to_owned(), value]))
    );
    for (heading, named) in [("By program", &report.programs), ("By kind of file", &report.kinds), ("By file", &report.files)] {
        let _ = writeln!(body, "<h2>{heading}</h2>\n<div class=\"wide\">{}</div>", shares(named, all.units)?);
        body.push_str(&table(&["", "written", "of all", "flushes", "duplicates"], report.rows(named, ROWS_MAX)));
    }
    if report.hours.len() > 1 {
        let _ = writeln!(body, "<h2>By hour</h2>\n<div class=\"wide\">{}</div>", hours(&report.hours)?);
    }
    Ok(document(&title, &body))
}

#[allow(clippy::cast_precision_loss)] // lengths of bars
fn volumes(report: &Watched) -> Result<String, DrawError> {
    let names: Vec<String> = report.volumes.iter().map(|volume| format!("a volume, {}", volume.commit_mode)).collect();
    let bar = |name, units: u64| Bar { name, value: Some(units as f64), shown: size_of_units(units) };
    let disk = report.volumes.first().map_or(report.totals.all.units, |volume| volume.client_blocks);
    let of_volumes = names.iter().zip(&report.volumes).map(|(name, volume)| bar(name, volume.units));
    bars(&[bar("the disk", disk)].into_iter().chain(of_volumes).collect::<Vec<_>>())
}

#[allow(clippy::cast_precision_loss)] // lengths of bars
fn shares(named: &[Named], all: u64) -> Result<String, DrawError> {
    let shown = |units| format!("{}, {}", size_of_units(units), share(units, all));
    let all_bars: Vec<Bar<'_>> = named
        .iter()
        .take(BARS_MAX)
        .map(|named| Bar { name: &named.name, value: Some(named.part.units as f64), shown: shown(named.part.units) })
        .collect();
    bars(&all_bars)
}

#[allow(clippy::cast_precision_loss)] // lengths of bars
fn hours(hours: &[Hour]) -> Result<String, DrawError> {
    let names: Vec<String> = (1..=hours.len()).map(|hour| hour.to_string()).collect();
    let bar = |(name, hour): (_, &Hour)| Bar { name, value: Some(hour.all.units as f64), shown: size_of_units(hour.all.units) };
    bars(&names.iter().map(String::as_str).zip(hours).map(bar).collect::<Vec<_>>())
}
