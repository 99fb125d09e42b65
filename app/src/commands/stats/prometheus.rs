//! `stats --prometheus`: the same report in Prometheus' text format, version 0.0.4, for a textfile collector or a scraper.
//!
//! 1. Names end in their unit, and counters in `_total`. Sizes are in bytes.
//! 2. A value that is not known has no sample.
//! 3. Every sample has the path of the volume's store, its UUID and its label.

use super::content::Stats;
use crate::runtime::latency::{BOUNDS_US, Latency};
use crate::runtime::tally::Count;
use onefold_engine::units::BLOCK_BYTES;
use std::fmt::{self, Write as _};

/// The states of an attached volume.
const STATES: [&str; 5] = ["opening", "serving", "full", "read-only", "truncated"];

#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// The label that distinguishes a value from others of its metric, if it has one; and the value, if it is known.
type Sample<'a, V> = (Option<(&'a str, &'a str)>, Option<V>);

/// The labels of a volume.
type Labels = [(&'static str, String)];

/// A metric's name, kind and help text.
type Metric<'a> = (&'a str, Kind, &'a str);

/// A metric with the samples of all volumes, which the format wants together.
struct Family {
    name: String,
    /// The lines that introduce it, and then a line for each sample.
    lines: String,
}

/// The metrics, in the order in which they came.
#[derive(Default)]
struct Text(Vec<Family>);

/// The metrics of one volume.
struct Volume<'a> {
    text: &'a mut Text,
    labels: &'a Labels,
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

/// A time in microseconds, in seconds as the format has them.
struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 1_000_000, self.0 % 1_000_000);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        f.write_str(format!("{whole}.{rest:06}").trim_end_matches('0'))
    }
}

impl Text {
    /// Returns the lines of a metric, which has its introduction.
    fn lines(&mut self, (name, kind, help): Metric<'_>) -> &mut String {
        let at = self.0.iter().position(|family| family.name == name).unwrap_or_else(|| {
            let kind = match kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Histogram => "histogram",
            };
            let lines = format!("# HELP onefold_{name} {help}\n# TYPE onefold_{name} {kind}\n");
            self.0.push(Family { name: name.to_owned(), lines });
            self.0.len() - 1
        });
        &mut self.0[at].lines
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|family| f.write_str(&family.lines))
    }
}

impl Volume<'_> {
    /// Adds a sample for each value that is known, each known by one label of its own, or alone.
    fn metric<V: fmt::Display>(&mut self, metric: Metric<'_>, samples: &[Sample<'_, V>]) {
        for (label, value) in samples {
            let Some(value) = value else { continue };
            self.sample(metric, "", label.as_slice(), value);
        }
    }

    /// Adds one sample of a metric, with labels of its own after those of the volume.
    fn sample(&mut self, metric: Metric<'_>, suffix: &str, own: &[(&str, &str)], value: impl fmt::Display) {
        let lines = self.text.lines(metric);
        let _ = write!(lines, "onefold_{}{suffix}{{", metric.0);
        let labels = self.labels.iter().map(|(key, value)| (*key, value.as_str())).chain(own.iter().copied());
        for (at, (key, value)) in labels.enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let _ = write!(lines, "{comma}{key}=\"{}\"", Escaped(value));
        }
        let _ = writeln!(lines, "}} {value}");
    }

    fn one(&mut self, metric: Metric<'_>, value: Option<u64>) {
        self.metric(metric, &[(None, value)]);
    }

    /// Adds the time that the requests of one kind have taken, as a histogram.
    fn histogram(&mut self, latency: &Latency) {
        const METRIC: Metric<'static> = ("client_request_seconds", Kind::Histogram, "Time until requests of clients were answered.");
        let request = ("request", latency.what.as_str());
        let mut so_far = 0;
        for (class, requests) in latency.requests.iter().enumerate() {
            so_far += requests;
            let bound = BOUNDS_US.get(class).map_or_else(|| "+Inf".to_owned(), |&us| format!("{}", Seconds(us)));
            self.sample(METRIC, "_bucket", &[request, ("le", &bound)], so_far);
        }
        self.sample(METRIC, "_sum", &[request], Seconds(latency.ns / 1000));
        self.sample(METRIC, "_count", &[request], so_far);
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

/// The report on a volume.
pub(super) struct Seen {
    pub labels: Vec<(&'static str, String)>,
    /// All processes of its attachment have died.
    pub has_died: bool,
    /// None: it is attached, and its server does not answer.
    pub stats: Option<Stats>,
}

/// Renders the reports of volumes.
pub(super) fn text(volumes: &[Seen]) -> String {
    let mut text = Text::default();
    for seen in volumes {
        seen.render(&mut Volume { text: &mut text, labels: &seen.labels });
    }
    text.to_string()
}

impl Seen {
    fn render(&self, of: &mut Volume<'_>) {
        use Kind::{Counter, Gauge};
        let is_attached = !self.has_died && self.stats.as_ref().is_none_or(|stats| stats.attached);
        of.one(("died", Gauge, "1 where all processes that served a volume have ended without a detach."), Some(u64::from(self.has_died)));
        of.one(("attached", Gauge, "Whether the volume is attached."), Some(u64::from(is_attached)));
        let answers = is_attached.then(|| u64::from(self.stats.is_some()));
        of.one(("answers", Gauge, "Whether the server of an attached volume answers."), answers);
        let Some(stats) = &self.stats else { return };
        let saved = stats.saved.as_ref();
        of.one(("logical_bytes", Gauge, "Blocks that clients wrote and can read, zeros excluded."), saved.map(|saved| saved.logical_bytes));
        of.one(("physical_bytes", Gauge, "Blocks that hold them, with the log's."), saved.map(|saved| saved.physical_bytes));
        of.one(("available_bytes", Gauge, "Space for new content."), stats.available_bytes);
        if let Some(lifetime) = &stats.counts.lifetime {
            let bytes = |units: u64| Some(units.saturating_mul(BLOCK_BYTES));
            let (client, device) = (bytes(lifetime.client_units), bytes(lifetime.device_units));
            of.one(("lifetime_client_written_bytes_total", Counter, "Bytes that clients wrote since the volume was created."), client);
            of.one(("lifetime_device_written_bytes_total", Counter, "Bytes written to the store since then, for all purposes."), device);
        }
        if stats.attached {
            condition(of, stats);
            served(of, stats);
        }
    }
}

/// Adds the condition of an attached volume, and the work below it.
fn condition(of: &mut Volume<'_>, stats: &Stats) {
    use Kind::{Counter, Gauge};
    // An opening reports its progress as well.
    let state = stats.state.as_deref().unwrap_or_default().split(':').next().unwrap_or_default();
    let states: Vec<_> = STATES.iter().map(|&name| (Some(("state", name)), Some(u64::from(name == state)))).collect();
    of.metric(("state", Gauge, "1 for the state that `onefold status` shows, and 0 for the others."), &states);
    of.one(("host_available_bytes", Gauge, "Room on the file system of a store in a file."), stats.host.map(|host| host.available_bytes));
    of.one(("host_bytes", Gauge, "Size of that file system."), stats.host.map(|host| host.bytes));
    let disks = stats.disk.iter().flat_map(|work| &work.disks).map(|disk| (Some(("disk", disk.disk.as_str())), disk.counts));
    let written: Vec<_> = disks.clone().map(|(label, counts)| (label, Some(counts.written_bytes))).collect();
    of.metric(
        ("disk_written_bytes_total", Counter, "Bytes that the disk below the store has written since the attach, for others, too."),
        &written,
    );
    let flushes: Vec<_> = disks.map(|(label, counts)| (label, Some(counts.flushes))).collect();
    of.metric(("disk_flushes_total", Counter, "Flushes of the disk below the store since the attach, for others, too."), &flushes);
    let failed: Vec<_> = stats.counts.failed.iter().map(|count| (Some(("command", count.what.as_str())), Some(count.operations))).collect();
    of.metric(("device_errors_total", Counter, "Commands to the store that have failed."), &failed);
    of.one(("damage_reports_total", Counter, "Reports of damage."), Some(stats.counts.damage));
    stats.counts.latencies.iter().for_each(|latency| of.histogram(latency));
}

/// Adds what only a server counts, since the volume was attached.
fn served(of: &mut Volume<'_>, stats: &Stats) {
    use Kind::{Counter, Gauge};
    of.by_kind(
        [("client_requests_total", "Requests of clients."), ("client_bytes_total", "Bytes of the requests of clients.")],
        "request",
        &stats.counts.client,
    );
    of.by_kind(
        [("device_commands_total", "Commands to the store."), ("device_bytes_total", "Bytes of the commands to the store.")],
        "command",
        &stats.counts.device,
    );
    let parts = stats.memory.iter().map(|part| (Some(("part", part.part.as_str())), part));
    let used: Vec<_> = parts.clone().map(|(label, part)| (label, Some(part.used_bytes))).collect();
    of.metric(("memory_used_bytes", Gauge, "Memory by part."), &used);
    let limits: Vec<_> = parts.map(|(label, part)| (label, Some(part.limit_bytes))).collect();
    of.metric(("memory_limit_bytes", Gauge, "The share of each part, which it exceeds for a request that is larger."), &limits);
    let Some(volume) = &stats.counts.volume else { return };
    let (dedup, space, work) = (&volume.dedup, &volume.space, &volume.out_of_line);
    let results = [("duplicate", dedup.duplicates), ("zero", dedup.zeroes), ("unchanged", dedup.unchanged), ("new", dedup.new_blocks)];
    of.metric(
        ("written_blocks_total", Counter, "Blocks of 4 KiB that clients wrote, by what they were."),
        &results.map(|(result, blocks)| (Some(("result", result)), Some(blocks))),
    );
    of.one(("deferred_blocks_total", Counter, "New blocks whose fingerprint was deferred."), Some(dedup.deferred));
    of.one(("device_flushes_total", Counter, "Flushes of the store."), Some(volume.ledger.device_flushes));
    of.one(("client_flushes_total", Counter, "Flushes of clients."), Some(volume.ledger.client_flushes));
    of.one(("index_entries", Gauge, "Fingerprints in the index in memory."), Some(dedup.index_entries));
    of.one(("index_capacity", Gauge, "Fingerprints that the index has room for."), Some(dedup.index_capacity));
    let blocks =
        [("unique", space.unique_blocks), ("shared", space.shared_blocks), ("kept", space.kept_blocks), ("free", space.free_blocks)];
    of.metric(
        (
            "blocks",
            Gauge,
            "Blocks of the device's data, by their links. While they are being counted, all but the free ones are lower bounds.",
        ),
        &blocks.map(|(links, blocks)| (Some(("links", links)), Some(blocks))),
    );
    of.one(("out_of_line_waiting_blocks", Gauge, "Blocks that are still to be looked up out of line."), Some(work.waiting_lbns));
    of.one(("out_of_line_linked_blocks_total", Counter, "Duplicates found out of line."), Some(work.linked));
    let scrub = &volume.scrub;
    of.one(("scrub_under_way", Gauge, "1 while a scrub is under way or paused."), Some(u64::from(scrub.is_under_way)));
    of.one(("scrub_damaged_blocks", Gauge, "Damaged blocks that the last scrub has found."), Some(scrub.damaged_blocks));
    of.one(("scrub_lost_blocks", Gauge, "Lost logical blocks that the last scrub has come to."), Some(scrub.lost_blocks));
    of.one(
        ("scrub_mended_blocks", Gauge, "Blocks that the last scrub has found damaged, and that are written again."),
        Some(scrub.mended_blocks),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_the_labels_of_their_volume_and_their_own_escaped_and_those_of_a_metric_stand_together() {
        let mut text = Text::default();
        for (labels, reads) in [
            ([("uuid", "u".to_owned()), ("label", "a \"b\"\n\\".to_owned())], 3),
            ([("uuid", "v".to_owned()), ("label", String::new())], 4),
        ] {
            let mut of = Volume { text: &mut text, labels: &labels };
            of.metric(("x_total", Kind::Counter, "Some."), &[(Some(("request", "read")), Some(reads)), (Some(("request", "write")), None)]);
            of.metric::<u64>(("y", Kind::Gauge, "Not known."), &[(None, None)]);
            of.one(("z", Kind::Gauge, "Known."), Some(1));
        }
        assert_eq!(
            text.to_string(),
            "# HELP onefold_x_total Some.\n# TYPE onefold_x_total counter\n\
             onefold_x_total{uuid=\"u\",label=\"a \\\"b\\\"\\n\\\\\",request=\"read\"} 3\n\
             onefold_x_total{uuid=\"v\",label=\"\",request=\"read\"} 4\n\
             # HELP onefold_z Known.\n# TYPE onefold_z gauge\n\
             onefold_z{uuid=\"u\",label=\"a \\\"b\\\"\\n\\\\\"} 1\n\
             onefold_z{uuid=\"v\",label=\"\"} 1\n"
        );
    }
}
