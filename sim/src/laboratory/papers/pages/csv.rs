//! The results as comma-separated values: a line for each replay, about the phase that is measured.

use crate::laboratory::papers::results::Results;
use crate::laboratory::replay::figures::{Figures, Latency, Space};
use crate::laboratory::replay::timed::Timed;
use crate::machine::account::LogEpochs;

/// The requests whose latencies have columns.
const KINDS: [&str; 4] = ["write", "fua", "flush", "read"];
const CLASSES: [&str; 7] = ["data", "refs", "map", "fingerprints", "written", "superblock", "log"];

/// Returns the name and the value of each column, in order.
fn columns(t: &Timed) -> Vec<(String, String)> {
    let (r, f) = (&t.report, &t.report.measured);
    let mut row = vec![
        ("trace", r.trace.clone()),
        ("phase", r.phase.clone()),
        ("scheme", r.scheme.clone()),
        ("persistence", r.persistence.clone()),
        ("outstanding", or_empty(r.outstanding)),
        ("request_blocks_max", or_empty(r.request_blocks_max)),
        ("device_model", r.device_model.clone()),
    ];
    row.extend(client(f));
    let mut row: Vec<(String, String)> = row.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    row.extend(CLASSES.map(|class| (format!("device_units_{class}"), f.device_units.get(class).copied().unwrap_or(0).to_string())));
    row.extend(device(f).into_iter().chain(log(f)).map(|(name, value)| (name.to_owned(), value)));
    for kind in KINDS {
        let l = f.latency_us.get(kind).copied().filter(|l| l.count > 0);
        let of = |part: fn(&Latency) -> f64| or_empty(l.as_ref().map(part));
        row.push((format!("{kind}_us_mean"), of(|l| l.mean)));
        row.push((format!("{kind}_us_p50"), of(|l| l.p50)));
        row.push((format!("{kind}_us_p99"), of(|l| l.p99)));
        row.push((format!("{kind}_us_max"), of(|l| l.max)));
    }
    row.extend(space(&r.space).map(|(name, value)| (name.to_owned(), value)));
    row.push(("cpu_seconds".to_owned(), format!("{:.4}", t.cpu_seconds)));
    row.push(("writes_per_second".to_owned(), format!("{:.0}", t.writes_per_second)));
    row
}

fn or_empty<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |v| v.to_string())
}

fn client(f: &Figures) -> Vec<(&'static str, String)> {
    let epoch = |n: Option<u64>| or_empty(n);
    let e = f.epochs;
    vec![
        ("virtual_seconds", f.virtual_seconds.to_string()),
        ("client_units", f.client_units.to_string()),
        ("client_writes", f.client_writes.to_string()),
        ("client_flushes", f.client_flushes.to_string()),
        ("client_fua", f.client_fua.to_string()),
        ("client_reads", f.client_reads.to_string()),
        ("client_discards", f.client_discards.to_string()),
        ("epochs", epoch(f.epochs_all)),
        ("epochs_flush", epoch(e.map(|e| e.flush))),
        ("epochs_fua", epoch(e.map(|e| e.fua))),
        ("epochs_strong", epoch(e.map(|e| e.strong))),
        ("epochs_timer", epoch(e.map(|e| e.timer))),
        ("epochs_memory", epoch(e.map(|e| e.memory))),
    ]
}

fn log(f: &Figures) -> Vec<(&'static str, String)> {
    let part = |of: fn(&LogEpochs) -> u64| or_empty(f.log_epochs.as_ref().map(of));
    vec![
        ("metadata_units", f.metadata_units_all.to_string()),
        ("log_epochs_riding", part(|e| e.riding.epochs)),
        ("log_epochs_bare", part(|e| e.bare.epochs)),
        ("log_epochs_large", part(|e| e.large.epochs)),
        ("log_epochs_removals", part(|e| e.removals.epochs)),
        ("log_flushes_riding", part(|e| e.riding.flushes)),
        ("log_flushes_bare", part(|e| e.bare.flushes)),
        ("log_flushes_large", part(|e| e.large.flushes)),
        ("log_plain", part(LogEpochs::plain)),
        ("log_carriers", part(LogEpochs::carriers)),
        ("log_packs", part(|e| e.packs)),
        ("idle_flushes", f.idle_flushes.to_string()),
        ("idle_device_flushes", f.idle_device_flushes.to_string()),
    ]
}

fn device(f: &Figures) -> [(&'static str, String); 13] {
    let d = f.duplication;
    [
        ("device_units", f.device_units_all.to_string()),
        ("device_read_units", f.device_read_units.to_string()),
        ("device_flushes", f.device_flushes.to_string()),
        ("device_discards", f.device_discards.to_string()),
        ("duplication_live", d.shares.live.to_string()),
        ("duplication_ever", d.shares.ever.to_string()),
        ("duplication_zero", d.shares.zero.to_string()),
        ("duplication_found", or_empty(d.found)),
        ("ideal", f.ideal.to_string()),
        ("bound", f.bound.to_string()),
        ("write_ratio", f.write_ratio.to_string()),
        ("efficiency", or_empty(f.efficiency)),
        ("flush_ratio", or_empty(f.flush_ratio)),
    ]
}

fn space(s: &Space) -> [(&'static str, String); 14] {
    [
        ("space_client_blocks", s.client_blocks.to_string()),
        ("space_client_contents", s.client_contents.to_string()),
        ("space_linked", or_empty(s.linked)),
        ("space_unique", or_empty(s.unique)),
        ("space_shared", or_empty(s.shared)),
        ("space_kept", or_empty(s.kept)),
        ("space_free", or_empty(s.free)),
        ("space_metadata", s.metadata.to_string()),
        ("space_ratio", or_empty(s.ratio)),
        ("added_client_blocks", s.added.client_blocks.to_string()),
        ("added_client_contents", s.added.client_contents.to_string()),
        ("added_linked", or_empty(s.added.linked)),
        ("added_metadata", s.added.metadata.to_string()),
        ("added_ratio", or_empty(s.added.ratio)),
    ]
}

/// Formats all results, with a first line of names.
#[must_use]
pub fn csv(results: &Results) -> String {
    let mut out = String::new();
    for timed in &results.runs {
        let row = columns(timed);
        let line = |of: fn(&(String, String)) -> &str| row.iter().map(of).collect::<Vec<_>>().join(",") + "\n";
        if out.is_empty() {
            out += &line(|(name, _)| name);
        }
        out += &line(|(_, value)| value);
    }
    out
}
