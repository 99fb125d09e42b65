//! Section 4.4: the used space.
//!
//! The paper counts the blocks that are occupied "during the workload running", without what was there before, and adds up what its system
//! takes for them: the physical blocks written, with their counts and fingerprints, and the map of the occupied logical blocks. So does the
//! first table here, in whole pages of metadata. The whole file system at the end of the run, with its setup, stands beside it.

use crate::laboratory::papers::drawing::html::{Table, number, percent};
use crate::laboratory::papers::results::Results;
use crate::laboratory::papers::studies::mode::Mode;
use crate::laboratory::papers::studies::published::PUBLISHED;
use crate::laboratory::papers::studies::workloads::all_of_paper;
use crate::laboratory::replay::figures::{Added, Space};
use crate::laboratory::replay::scheme::Scheme;

/// Returns the share of the blocks that the run wrote that deduplication with free metadata would need.
#[must_use]
#[allow(clippy::cast_precision_loss)] // counts of one run are far below 2^52
pub fn ideal_added(added: &Added) -> Option<f64> {
    (added.client_blocks > 0).then(|| added.client_contents as f64 / added.client_blocks as f64)
}

/// Returns the share of the client's blocks that deduplication with free metadata would need.
#[must_use]
#[allow(clippy::cast_precision_loss)] // counts of one run are far below 2^52
pub fn ideal(s: &Space) -> Option<f64> {
    (s.client_blocks > 0).then(|| s.client_contents as f64 / s.client_blocks as f64)
}

/// Formats both tables.
#[must_use]
pub fn space(results: &Results) -> String {
    against_published(results).html() + &all(results).html()
}

#[allow(clippy::cast_precision_loss)] // counts of one run are far below 2^52
fn megabytes(blocks: u64) -> f64 {
    blocks as f64 * 4096.0 / 1e6
}

fn against_published(results: &Results) -> Table {
    let heads = [
        "workload",
        "published: original, MB",
        "deduplicated, MB",
        "saved",
        "here, the run alone: original, MB",
        "deduplicated, MB",
        "saved",
        "ideal",
        "setup included: original, MB",
        "saved",
        "ideal",
    ];
    let mut table = Table::new("Section 4.4: space, published and here (ordered-anticipate, weak)", heads);
    for p in PUBLISHED {
        for w in all_of_paper(p.name) {
            let s = results.of(w.trace, Scheme::OrderedAnticipate, Mode::Weak, w.device).map(|t| t.report.space);
            let added = s.map(|s| s.added).filter(|added| added.client_blocks > 0);
            table.row([
                format!("{} ({})", p.name, w.short()),
                format!("{:.1}", p.space.0),
                format!("{:.1}", p.space.1),
                format!("{:.0} %", p.space.2),
                number(added.map(|added| megabytes(added.client_blocks)), 1),
                number(added.and_then(|added| Some(megabytes(added.linked? + added.metadata))), 1),
                percent(added.and_then(|added| added.ratio).map(|ratio| 1.0 - ratio)),
                percent(added.as_ref().and_then(ideal_added).map(|ideal| 1.0 - ideal)),
                number(s.map(|s| megabytes(s.client_blocks)), 1),
                percent(s.and_then(|s| s.ratio).map(|ratio| 1.0 - ratio)),
                percent(s.as_ref().and_then(ideal).map(|ideal| 1.0 - ideal)),
            ]);
        }
    }
    table
}

fn all(results: &Results) -> Table {
    let heads = [
        "workload and scheme",
        "client's blocks",
        "contents of them",
        "unique",
        "shared",
        "linked",
        "kept by fingerprint alone",
        "free",
        "metadata, 4 KiB",
        "(linked + metadata) ÷ client's blocks",
    ];
    let mut table = Table::new("Space at the end of the measured phase, in blocks of 4 KiB, weak", heads);
    for w in results.workloads() {
        for scheme in [Scheme::Journal, Scheme::Shadow, Scheme::Ordered, Scheme::OrderedAnticipate] {
            let Some(timed) = results.of(w.trace, scheme, Mode::Weak, w.device) else { continue };
            let s = &timed.report.space;
            let or_dash = |n: Option<u64>| n.map_or_else(|| "–".to_owned(), |n| n.to_string());
            table.row([
                format!("{}, {}", w.short(), scheme.name()),
                s.client_blocks.to_string(),
                s.client_contents.to_string(),
                or_dash(s.unique),
                or_dash(s.shared),
                or_dash(s.linked),
                or_dash(s.kept),
                or_dash(s.free),
                s.metadata.to_string(),
                number(s.ratio, 4),
            ]);
        }
    }
    table
}
