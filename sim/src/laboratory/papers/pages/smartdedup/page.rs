//! The page of SmartDedup's evaluation.

use super::rows::rows;
use super::{figures, live_tables};
use crate::laboratory::papers::drawing::html::{Page, Table, escape};
use crate::laboratory::papers::results::Results;
use crate::laboratory::papers::studies::contents;
use crate::laboratory::papers::studies::smartdedup::published::{ADAPTING, POLICIES, REPLAYS, RUNS, statements};
use crate::laboratory::papers::studies::smartdedup::rivals;
use crate::laboratory::papers::studies::smartdedup::study::Study;
use crate::laboratory::papers::verdict::Tally;

/// Formats the whole page.
#[must_use]
pub fn page(results: &Results, tally: Tally) -> String {
    let (studies, live): (&[Study], _) = (&results.studies, &results.live);
    let mut page = Page::default();
    page.section("published", "Measured against published", PUBLISHED, &evaluation(results).html());
    page.section(
        "table-2",
        "Table 2: who contributes the duplicates",
        TABLE_2,
        &(figures::contributors(studies) + &results.hints_live.file_types()),
    );
    page.section("figure-3", "Figure 3: fio on ext4", FIO, &live_tables::fio(live));
    page.section("figure-3-rivals", "Figure 3: Dmdedup and CAFTL beside it", RIVALS, &rivals::table(&results.rivals));
    page.section("figure-4", "Figure 4: fio on F2FS", "Not measured: it shows another board and another file system.", "");
    page.section("figure-5", "Figure 5: processor and memory", FIO, &live_tables::mixes(live));
    page.section("table-4", "Table 4: the traces", "", &(figures::segments(results) + &contents::table(&results.contents).html()));
    page.section("figure-6", "Figure 6: replayed traces", FIGURE_6, &(statements(&REPLAYS) + &figures::replays(results)));
    page.section("figure-7", "Figure 7: navigation", "Not measured: it shows another board, and its traces are not available.", "");
    page.section("figure-8", "Figure 8: policies for the index", FIGURE_8, &(statements(&POLICIES) + &figures::policies(studies)));
    page.section("figure-9", "Figure 9: DEDISbench", FIO, &live_tables::dedisbench(live));
    page.section(
        "figure-10",
        "Figures 10 and 11: adapting",
        ADAPT,
        &(statements(&ADAPTING) + &figures::adapting(studies, &results.naming)),
    );
    page.section("figure-12", "Figure 12: short runs are not linked to", FIGURE_12, &(statements(&RUNS) + &figures::runs(studies)));
    let about = format!("{} traces, {} of them made like rows of Table 1.", studies.len(), studies.iter().filter(|s| s.is_made).count());
    let intro = format!("<p>{tally}. {}</p>\n<p><a href=\"index.html\">OrderMergeDedup's evaluation</a></p>\n", escape(&about));
    page.html("SmartDedup's evaluation, measured by Onefold", &intro)
}

fn evaluation(results: &Results) -> Table {
    let mut table = Table::new("Every row that Onefold is judged by", ["published", "goal here", "measured here", "verdict"]);
    for row in rows(results) {
        table.row([row.published, row.goal, &row.measured, row.verdict.name()]);
    }
    table
}

const PUBLISHED: &str = "\"Missed\" is a goal of the project that this state of it does not reach; \"stand-in\" was measured on something \
    else than the paper's, and says whether the goal is met by that. Every row is computed from the results below. The count at the top is \
    that of the rows of all papers, as on the other page. The deduplication ratio is the share of all writes that were found to be \
    duplicates in line, as in the paper.";
const TABLE_2: &str = "A block device sees no files. The recorder's classification of the data, and the process that made them, stand in \
    for types of files. Of a tree that is copied to a mounted volume, <code>./dev bench file-types</code> counts by the names of files, \
    and the next report shows it.";
const FIO: &str = "Measured live on this machine, over FUSE and a loop device, by another command. There is no telephone here, so only \
    the ratios to the bare store can be compared with the paper's. Where the dirty pages of the device are bounded, on a slowed store, \
    writes wait for it, and their percentiles say something of it; elsewhere they are those of the client's page cache.";
const RIVALS: &str = "In virtual time, on the model of a tablet's flash: Dmdedup's design is shadow, CAFTL finds its duplicates in the \
    device. Each has the paper's memory for fingerprints. Neighbouring writes are not joined, as they are live, and processor time takes \
    none, so that what is left is deduplication and its metadata.";
const FIGURE_6: &str = "The recorded traces stand in for the paper's segments, and virtual run time for real time: think times as \
    recorded, waits as the model of a tablet's flash makes them.";
const FIGURE_8: &str = "The policies of the laboratory, with memory for fingerprints alone. Sweep is what Onefold does: its index in \
    memory, and its fingerprint table instead of an index on the medium; runs is a candidate. Traces like those of Table 1 are made, with \
    a part of the writes, and the same part of the memory; recorded traces are whole.";
const ADAPT: &str = "Processor time for the names of blocks stands in for power. All fingerprints are in memory, and nothing is worked \
    off out of line, which would find what is lost here.";
const FIGURE_12: &str = "The same replay in which nothing is linked to stands in for EXT4. Only the recorded traces, since duplicates of \
    made ones are drawn one by one.";
