//! The report of a replay: one struct, two renderings.

use crate::laboratory::replay::figures::{ByClass, Figures, Latency, Space};
use crate::machine::account::SentUnits;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The report of a replay of one trace on one scheme.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub trace: String,
    pub scheme: String,
    pub persistence: String,
    /// The number of changes that may wait for their answers; none for as many as memory allows.
    pub outstanding: Option<usize>,
    /// The most blocks of a request, where the replay set a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_blocks_max: Option<u64>,
    pub device_model: String,
    /// The phase that is measured, or "whole" if the trace has no phase `run`.
    pub phase: String,
    #[serde(flatten)]
    pub measured: Figures,
    /// The use of the volume's space at the end of the measured phase.
    pub space: Space,
    /// The figures from the opening of the volume to its clean close, with every phase.
    pub whole: Figures,
    /// The runs of blocks that follow each other for the client and on the device, in the end; none if the scheme has no volume.
    pub extents: Option<u64>,
    /// Any other counts of the scheme, from opening to close.
    pub facts: BTreeMap<String, u64>,
}

struct Percent(f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} %", self.0 * 100.0)
    }
}

fn or_dash<T: fmt::Display>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |v| v.to_string())
}

fn classes(f: &mut fmt::Formatter<'_>, figures: &Figures) -> fmt::Result {
    writeln!(f, "  {:<14} {:>10} {:>12} {:>12}", "class", "units", "per unit", "per epoch")?;
    let of = |map: &ByClass<f64>, class: &str| map.get(class).map_or_else(|| "-".to_owned(), |v| format!("{v:.4}"));
    for (class, units) in &figures.device_units {
        let per_epoch = figures.metadata_per_epoch.as_ref().map_or_else(|| "-".to_owned(), |map| of(map, class));
        writeln!(f, "  {class:<14} {units:>10} {:>12} {per_epoch:>12}", of(&figures.metadata_per_unit, class))?;
    }
    writeln!(f, "  {:<14} {:>10}", "all", figures.device_units_all)
}

fn epochs(f: &mut fmt::Formatter<'_>, x: &Figures) -> fmt::Result {
    match x.epochs {
        Some(e) => writeln!(
            f,
            "  epochs: {} ({} flush, {} FUA, {} strong, {} timer, {} memory, {} close)",
            e.all(),
            e.flush,
            e.fua,
            e.strong,
            e.timer,
            e.memory,
            e.close
        )?,
        None => writeln!(f, "  epochs: unknown, the scheme does not count them")?,
    }
    if let Some(e) = x.log_epochs {
        let small = |sent: &SentUnits| {
            format!(
                "{} ({} new blocks, {} in slots, {} plain units, {} carriers, {} flushes)",
                sent.epochs, sent.new_blocks, sent.riders, sent.plain, sent.carriers, sent.flushes
            )
        };
        writeln!(f, "  of up to 64 new blocks, some in slots: {}; none in slots: {}", small(&e.riding), small(&e.bare))?;
        writeln!(
            f,
            "  larger: {}, {} blocks in {} packs; without a client's write: {}",
            small(&e.large),
            e.packed_blocks,
            e.packs,
            small(&e.removals)
        )?;
    }
    Ok(())
}

fn figures(f: &mut fmt::Formatter<'_>, x: &Figures) -> fmt::Result {
    writeln!(
        f,
        "  client: {} units in {} writes, {} flushes, {} FUA writes, {} reads, {} discards, in {:.1} s of virtual time",
        x.client_units, x.client_writes, x.client_flushes, x.client_fua, x.client_reads, x.client_discards, x.virtual_seconds
    )?;
    epochs(f, x)?;
    let d = x.duplication;
    writeln!(
        f,
        "  duplication: live {}, ever {}, zero {}; found, zeros included: {}",
        Percent(d.shares.live),
        Percent(d.shares.ever),
        Percent(d.shares.zero),
        or_dash(d.found.map(Percent))
    )?;
    writeln!(
        f,
        "  write ratio {:.4}; ideal {:.4}, bound {:.4} ({} epochs); efficiency {}",
        x.write_ratio,
        x.ideal,
        x.bound,
        x.bound_epochs,
        or_dash(x.efficiency.map(Percent))
    )?;
    classes(f, x)?;
    writeln!(
        f,
        "  device: {} units of metadata, {} flushes ({} an epoch; {} for {} with nothing to commit), {} units read, {} discards",
        x.metadata_units_all,
        x.device_flushes,
        or_dash(x.flush_ratio.map(|r| format!("{r:.2}"))),
        x.idle_device_flushes,
        x.idle_flushes,
        x.device_read_units,
        x.device_discards
    )?;
    for (kind, Latency { count, mean, p50, p90, p99, p999, max }) in x.latency_us.iter().filter(|(_, l)| l.count > 0) {
        writeln!(
            f,
            "  latency of a {kind} (us; {count}): mean {mean:.0}, 50 % {p50:.0}, 90 % {p90:.0}, 99 % {p99:.0}, 99.9 % {p999:.0}, \
             most {max:.0}"
        )?;
    }
    Ok(())
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outstanding = self.outstanding.map_or_else(String::new, |n| format!(" ({n} at a time)"));
        writeln!(f, "{}: {}, {}{outstanding}, device model {}", self.trace, self.scheme, self.persistence, self.device_model)?;
        writeln!(f, " phase {}", self.phase)?;
        figures(f, &self.measured)?;
        let s = &self.space;
        writeln!(
            f,
            "  space: the client holds {} blocks, {} contents; linked {} (unique {}, shared {}), kept {}, free {}; \
             {} units of metadata; ratio {}",
            s.client_blocks,
            s.client_contents,
            or_dash(s.linked),
            or_dash(s.unique),
            or_dash(s.shared),
            or_dash(s.kept),
            or_dash(s.free),
            s.metadata,
            or_dash(s.ratio.map(|r| format!("{r:.4}")))
        )?;
        writeln!(f, "  extents in the end: {}", or_dash(self.extents))?;
        writeln!(f, " from opening to close")?;
        figures(f, &self.whole)?;
        self.facts.iter().try_for_each(|(name, value)| writeln!(f, "  {name}: {value}"))
    }
}
