//! `stats --prometheus`: the same report in Prometheus' text format, version 0.0.4, for a textfile collector or a scraper.
//!
//! 1. Names end in their unit, and counters in `_total`. Sizes are in bytes.
//! 2. A value that is not known has no sample.
//! 3. Every sample has the path of the volume's store, its UUID and its label.

use crate::runtime::condition::{Counts, PartUse};
use crate::runtime::tally::Count;
use crate::runtime::volume_counts::Saved;
use onefold_engine::units::BLOCK_BYTES;
use std::fmt::{self, Write as _};

#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
}

/// The label that distinguishes a value from others of its metric, if it has one; and the value, if it is known.
type Sample<'a, V> = (Option<(&'a str, &'a str)>, Option<V>);

/// The text, while it is made.
struct Text<'a> {
    out: String,
    /// The labels of the volume.
    of: &'a [(&'static str, String)],
}

/// A label's value, with what the format escapes.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

impl Text<'_> {
    /// Adds a metric with a sample for each value that is known, each known by one label of its own, or alone.
    fn metric<V: fmt::Display>(&mut self, (name, kind, help): (&str, Kind, &str), samples: &[Sample<'_, V>]) {
        if samples.iter().all(|(_, value)| value.is_none()) {
            return;
        }
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let _ = writeln!(self.out, "# HELP onefold_{name} {help}\n# TYPE onefold_{name} {kind}");
        for (label, value) in samples {
            let Some(value) = value else { continue };
            let _ = write!(self.out, "onefold_{name}{{");
            let own = label.iter().map(|&(key, value)| (key, value));
            let labels = self.of.iter().map(|(key, value)| (*key, value.as_str())).chain(own);
            for (at, (key, value)) in labels.enumerate() {
                let comma = if at == 0 { "" } else { "," };
                let _ = write!(self.out, "{comma}{key}=\"{}\"", Escaped(value));
            }
            let _ = writeln!(self.out, "}} {value}");
        }
    }

    fn one(&mut self, metric: (&str, Kind, &str), value: Option<u64>) {
        self.metric(metric, &[(None, value)]);
    }

    /// Adds the operations and the bytes of each kind.
    fn by_kind(&mut self, [operations, bytes]: [(&str, &str); 2], label: &str, counts: &[Count]) {
        let of = counts.iter().map(|count| Some((label, count.what.as_str())));
        let samples: Vec<_> = of.clone().zip(counts).map(|(of, count)| (of, Some(count.operations))).collect();
        self.metric((operations.0, Kind::Counter, operations.1), &samples);
        let samples: Vec<_> = of.zip(counts).map(|(of, count)| (of, Some(count.bytes))).collect();
        self.metric((bytes.0, Kind::Counter, bytes.1), &samples);
    }
}

/// The report, as far as it is rendered.
pub(super) struct Rendered<'a> {
    pub is_attached: bool,
    pub saved: Option<&'a Saved>,
    pub available_bytes: Option<u64>,
    pub counts: &'a Counts,
    pub memory: &'a [PartUse],
}

/// Renders the report, with these labels of the volume.
pub(super) fn text(stats: &Rendered<'_>, volume: &[(&'static str, String)]) -> String {
    use Kind::{Counter, Gauge};
    let mut text = Text { out: String::new(), of: volume };
    text.one(("attached", Gauge, "Whether the volume is attached."), Some(u64::from(stats.is_attached)));
    let saved = stats.saved;
    text.one(("logical_bytes", Gauge, "Blocks that clients wrote and can read, zeros excluded."), saved.map(|saved| saved.logical_bytes));
    text.one(("physical_bytes", Gauge, "Blocks that hold them, with the log's."), saved.map(|saved| saved.physical_bytes));
    text.one(("available_bytes", Gauge, "Space for new content."), stats.available_bytes);
    if let Some(lifetime) = &stats.counts.lifetime {
        let bytes = |units: u64| Some(units.saturating_mul(BLOCK_BYTES));
        let (client, device) = (bytes(lifetime.client_units), bytes(lifetime.device_units));
        text.one(("lifetime_client_written_bytes_total", Counter, "Bytes that clients wrote since the volume was created."), client);
        text.one(("lifetime_device_written_bytes_total", Counter, "Bytes written to the device since then, for all purposes."), device);
    }
    if stats.is_attached {
        served(&mut text, stats);
    }
    text.out
}

/// Adds what only a server counts, since the volume was attached.
fn served(text: &mut Text<'_>, stats: &Rendered<'_>) {
    use Kind::{Counter, Gauge};
    text.by_kind(
        [("client_requests_total", "Requests of clients."), ("client_bytes_total", "Bytes of the requests of clients.")],
        "request",
        &stats.counts.client,
    );
    text.by_kind(
        [("device_commands_total", "Commands to the device."), ("device_bytes_total", "Bytes of the commands to the device.")],
        "command",
        &stats.counts.device,
    );
    let parts = stats.memory.iter().map(|part| (Some(("part", part.part.as_str())), part));
    let used: Vec<_> = parts.clone().map(|(of, part)| (of, Some(part.used_bytes))).collect();
    text.metric(("memory_used_bytes", Gauge, "Memory by part."), &used);
    let limits: Vec<_> = parts.map(|(of, part)| (of, Some(part.limit_bytes))).collect();
    text.metric(("memory_limit_bytes", Gauge, "The most memory of each part."), &limits);
    let Some(volume) = &stats.counts.volume else { return };
    let (dedup, space, work) = (&volume.dedup, &volume.space, &volume.out_of_line);
    let results = [("duplicate", dedup.duplicates), ("zero", dedup.zeroes), ("unchanged", dedup.unchanged), ("new", dedup.new_blocks)];
    text.metric(
        ("written_blocks_total", Counter, "Blocks of 4 KiB that clients wrote, by what they were."),
        &results.map(|(result, blocks)| (Some(("result", result)), Some(blocks))),
    );
    text.one(("deferred_blocks_total", Counter, "New blocks whose fingerprint was deferred."), Some(dedup.deferred));
    text.one(("device_flushes_total", Counter, "Flushes of the device."), Some(volume.ledger.device_flushes));
    text.one(("client_flushes_total", Counter, "Flushes of clients."), Some(volume.ledger.client_flushes));
    text.one(("index_entries", Gauge, "Fingerprints in the index in memory."), Some(dedup.index_entries));
    text.one(("index_capacity", Gauge, "Fingerprints that the index has room for."), Some(dedup.index_capacity));
    let blocks =
        [("unique", space.unique_blocks), ("shared", space.shared_blocks), ("kept", space.kept_blocks), ("free", space.free_blocks)];
    text.metric(
        (
            "blocks",
            Gauge,
            "Blocks of the device's data, by their links. While they are being counted, all but the free ones are lower bounds.",
        ),
        &blocks.map(|(links, blocks)| (Some(("links", links)), Some(blocks))),
    );
    text.one(("out_of_line_waiting_blocks", Gauge, "Blocks that are still to be looked up out of line."), Some(work.waiting_lbns));
    text.one(("out_of_line_linked_blocks_total", Counter, "Duplicates found out of line."), Some(work.linked));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_the_labels_of_its_volume_and_its_own_escaped() {
        let of = [("uuid", "u".to_owned()), ("label", "a \"b\"\n\\".to_owned())];
        let mut text = Text { out: String::new(), of: &of };
        text.metric(("x_total", Kind::Counter, "Some."), &[(Some(("request", "read")), Some(3)), (Some(("request", "write")), None)]);
        text.metric::<u64>(("y", Kind::Gauge, "Not known."), &[(None, None)]);
        assert_eq!(
            text.out,
            "# HELP onefold_x_total Some.\n# TYPE onefold_x_total counter\n\
             onefold_x_total{uuid=\"u\",label=\"a \\\"b\\\"\\n\\\\\",request=\"read\"} 3\n"
        );
    }
}
