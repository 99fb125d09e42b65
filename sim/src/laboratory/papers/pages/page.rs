//! The page: one self-contained file for people.

use crate::laboratory::papers::drawing::html::{Page, Table, escape};
use crate::laboratory::papers::pages::evaluation::rows;
use crate::laboratory::papers::pages::target::Target;
use crate::laboratory::papers::pages::{energy, figures, granular, journal, log_tables, metadata, space, statements};
use crate::laboratory::papers::results::Results;
use crate::laboratory::papers::studies::mode::Mode;
use crate::laboratory::papers::studies::workloads::WORKLOADS;
use crate::laboratory::papers::studies::{contents, published};
use crate::laboratory::papers::verdict::{Row, Tally};

/// The end of the axis of metadata charts.
const METADATA_TOP: (f64, f64) = (1.0, 2.0);

/// Formats the whole page.
#[must_use]
pub fn page(results: &Results, targets: &[Target], tally: Tally) -> String {
    let mut page = Page::default();
    page.section("targets", "Targets", TARGETS, &(targets_table(targets).html() + &failures(results)));
    page.section(
        "published",
        "Measured against published",
        PUBLISHED,
        &(evaluation(&rows(results)).html() + &statements::table(results).html()),
    );
    page.section(
        "figure-2a",
        "Figure 2 (A): write ratio, weak persistence",
        "",
        &figures::write_ratios(results, "Figure 2 (A)", Mode::Weak),
    );
    page.section(
        "figure-2b",
        "Figure 2 (B): run time, weak persistence",
        LATENCY,
        &(figures::run_times(results, "Figure 2 (B)", Mode::Weak) + &results.live_figures.table()),
    );
    page.section(
        "figure-3a",
        "Figure 3 (A): write ratio, strong persistence",
        STRONG,
        &figures::write_ratios(results, "Figure 3 (A)", Mode::Strong),
    );
    page.section("figure-3-blocks", "Figure 3 (A) at one granularity: requests of 4 KiB", BLOCKS, &granular::table(results).html());
    page.section(
        "figure-3b",
        "Figure 3 (B): run time, strong persistence",
        LATENCY,
        &figures::run_times(results, "Figure 3 (B)", Mode::Strong),
    );
    page.section("space", "Section 4.4: space", SPACE, &space::space(results));
    page.section("energy", "Instead of section 4.5: processor seconds and run time", ENERGY, &energy::energy(results));
    let charts = metadata::metadata(results, Mode::Weak, METADATA_TOP.0) + &metadata::metadata(results, Mode::Strong, METADATA_TOP.1);
    page.section("metadata", "The cost of metadata", METADATA, &charts);
    page.section("journal", "The journal beside ordered-anticipate", "", &journal::section(results));
    page.section("log", "The log: units and flushes", LOG, &log_tables::tables(results));
    let trees = metadata::trees(results, Mode::Weak) + &metadata::trees(results, Mode::Strong);
    page.section("shadow", "The trees of shadow", SHADOW, &trees);
    let traces = workloads(results).html() + &contents::table(&results.contents).html();
    page.section("reading", "How to read this", "", &(READING.to_owned() + &traces));
    let others = "<p><a href=\"smartdedup.html\">SmartDedup's evaluation</a>, <a href=\"hints.html\">that of Using Hints</a>, \
                  <a href=\"app-dedupe.html\">that of APP-Dedupe</a></p>\n";
    page.html(
        "OrderMergeDedup's evaluation, replayed by Onefold",
        &format!("<p>{tally}. {}</p>\n{others}", escape(&made(results, targets))),
    )
}

fn made(results: &Results, targets: &[Target]) -> String {
    let m = &results.made;
    let missed = targets.iter().filter(|t| !t.holds).count();
    let memory = m.peak_resident_bytes.map_or_else(String::new, |bytes| format!(" and at most {} MiB of memory", bytes >> 20));
    let revisions = if m.revisions.is_empty() { String::new() } else { format!(", by revision {}", m.revisions.join(" and ")) };
    format!(
        "{} replays of {} traces in {:.1} minutes on {} threads, {:.0} s of processor time{memory}{revisions}; missed targets: {} of {}. \
         Counts and virtual times do not depend on the machine; processor seconds do. results.csv and results.json beside this page have \
         every replay.",
        results.runs.len(),
        results.workloads().len(),
        m.wall_seconds / 60.0,
        m.threads,
        m.cpu_seconds,
        missed,
        targets.len()
    )
}

fn targets_table(targets: &[Target]) -> Table {
    let mut table = Table::new("The targets of this report", ["target", "whose", "value", "unit", "wanted", "verdict", "counts behind it"]);
    for t in targets {
        let verdict = if t.holds { "holds" } else { "missed" };
        let (value, unit) = (format!("{:.4}", t.value), t.unit.to_owned());
        let whose = t.source.name().to_owned();
        table.row([t.name.clone(), whose, value, unit, t.target.clone(), verdict.to_owned(), t.because.clone()]);
    }
    table
}

fn failures(results: &Results) -> String {
    if results.failures.is_empty() {
        return String::new();
    }
    let mut table = Table::new("Replays that failed", ["replay", "error"]);
    results.failures.iter().for_each(|f| table.row([f.replay.clone(), f.error.clone()]));
    table.html()
}

fn evaluation(rows: &[Row]) -> Table {
    let mut table =
        Table::new("Every row of the tables that Onefold is judged by", ["paper", "published", "goal here", "measured here", "verdict"]);
    for r in rows {
        table.row([r.paper, r.published, r.goal, &r.measured, r.verdict.name()]);
    }
    table
}

fn workloads(results: &Results) -> Table {
    let heads = ["trace", "stands for", "duplication there", "duplication here", "device model of its figures", "how it differs"];
    let mut table = Table::new("The traces", heads);
    for w in &WORKLOADS {
        let published = published::PUBLISHED.iter().find(|p| Some(p.name) == w.paper);
        let duplication = published.map_or_else(|| "–".to_owned(), |p| format!("{} %", p.duplication_percent));
        let here = results.parts_of(w.trace);
        table.row([w.trace, w.paper.unwrap_or("no workload of the paper"), &duplication, &here, w.device, w.stand_in]);
    }
    table
}

const TARGETS: &str = "Counts are those of the phase \"run\" on the device model \"instant\", which takes no time. The paper's targets are \
    judged on the six traces that stand for its workloads: its least efficiency, and for shadow its range of Dmdedup. Ours are an \
    arithmetic model of this project (ordered), and what the log is allowed. The counts behind a miss stand beside it.";
const PUBLISHED: &str = "\"Missed\" is a goal of the whole project that this state of it does not reach; \"stand-in\" was measured on \
    something else than the paper's, and says whether the goal is met by that; \"not measured\" says why. Every row is computed from the \
    results that this page is made of. ordered-anticipate has all of the paper's optimizations and is the default of commit mode ordered; \
    the default of a volume is commit mode log, which is packed here.";
const LATENCY: &str = "The paper measures the latency of applications. Here the run time of the phase in virtual time stands in: think \
    times as recorded, waits as the device model and the scheme make them. What an application does at the same time as its I/O is in the \
    think times already. Live, the same requests go to a volume over FUSE and a loop device, on a store that is slowed to the model, so \
    that fingerprints and the whole road take their time.";
const STRONG: &str = "Under strong persistence a write is acknowledged when all of its I/O is durable. At most 32 wait for that; the same \
    with 1 stands in a table of its own. Shadow commits each block by itself, as the paper configured Dmdedup.";
const BLOCKS: &str = "The paper's systems get requests of 4 KiB; above, a request is as large as the client sent it, and is committed \
    whole. Here the same requests are sent in pieces of one block, of which 1, 4 or 32 wait: the paper does not say how many, and what it \
    publishes should lie between. ordered-period anticipates as the paper does, for 1 ms or not at all; ordered-anticipate waits for parts \
    of a commit, too.";
const SPACE: &str = "Metadata are the 4 KiB blocks of it that were ever written. Blocks that only their fingerprint holds are free for \
    reuse and not counted as used. Shadow and journal keep no account of free blocks.";
const ENERGY: &str = "Not energy. Fingerprints come from the traces, so hashing is in none of these seconds, and no content is moved; they \
    compare schemes with each other, not with a device. Shadow's seconds are redb's.";
const METADATA: &str = "refs: reference counts (shadow: counts, space maps and freed pages). written: the bits that say which pages were \
    ever written (journal: its redo records). log: units without slots. superblock: for shadow the roots of its trees, too.";
const LOG: &str = "log writes plain units only; carried lets one compressed block ride in a unit, where one is small enough; packed lets \
    as many ride as fit, and packs large epochs. A unit with slots is content: it is not counted among metadata. The shipped traces do not \
    say how well blocks compress: blocks of journals and of a file system's metadata are taken to come to half, file data not to compress. \
    An epoch in which nothing could ride has no new block that comes to 3,500 bytes or less, or more than 64 new blocks. Epochs are those \
    of the volume; those of no client take fingerprints away, to make room. A log's pages are written at checkpoints, of which the last \
    comes when the volume closes: so what stands there from opening to close has all of them in it, and of the phase alone only those that \
    the log asked for.";
const SHADOW: &str = "Dmdedup's two copy-on-write trees, on redb: every commit writes each changed page and all pages above it to new \
    places. Space map and superblock stand apart.";
const READING: &str = "<dl>\n\
<dt>unit</dt><dd>one aligned 4 KiB of the device. A write that touches any byte of it counts 1, each time.</dd>\n\
<dt>write ratio</dt><dd>units written to the device, data and every kind of metadata, ÷ units the client wrote. \
No deduplication is 1.</dd>\n\
<dt>ideal</dt><dd>1 − duplication (live), zeros included: what deduplication with free metadata would write.</dd>\n\
<dt>bound</dt><dd>what a block device could do at best: the new blocks of each epoch as the client divided them, and at least 1 unit an \
epoch. Where a trace does not say how well blocks compress, blocks of journals and metadata are taken to come to half, and all others \
count whole.</dd>\n\
<dt>efficiency</dt><dd>(1 − write ratio) ÷ duplication (live, zeros included). Lazy reclaim finds duplicates of what nothing maps to any \
more, and can pass 100 %.</dd>\n\
<dt>epoch</dt><dd>what one commit makes durable.</dd>\n\
<dt>replay</dt><dd>keeps dependencies: nothing recorded after a flush is sent before that flush is acknowledged; a write with FUA and the \
flush after it are one FUA write. Every read is compared with what was written, and the engine's ledger with the device's own count: a \
difference fails the replay.</dd>\n\
</dl>\n";
