//! The page of APP-Dedupe's evaluation.

use super::rows::rows;
use super::{cost_figure, figures, throughput};
use crate::laboratory::papers::drawing::html::{Page, Table};
use crate::laboratory::papers::results::Results;
use crate::laboratory::papers::studies::app_dedupe::published::{ACCESS, COLLECTED, COSTS, RESPONSE_TIMES, WRITTEN};
use crate::laboratory::papers::studies::app_dedupe::runs;
use crate::laboratory::papers::studies::smartdedup::published::{Statement, statements};
use crate::laboratory::papers::verdict::Tally;

/// Formats the whole page.
#[must_use]
pub fn page(results: &Results, tally: Tally) -> String {
    let mut page = Page::default();
    page.section("published", "Measured against published", PUBLISHED, &evaluation(results).html());
    let live = (!results.load_costs.costs.is_empty()).then(|| cost_figure::costs(&results.load_costs));
    figure(&mut page, ("figure-4", "Figure 4: memory and processor"), COST, &COSTS, live.ok_or(NOT_MEASURED));
    let replayed = |format: fn(&[runs::LoadRun]) -> String| {
        if results.loads.is_empty() { Err(NOT_REPLAYED) } else { Ok(format(&results.loads)) }
    };
    figure(&mut page, ("figure-5", "Figure 5: data written"), DATA, &WRITTEN, replayed(figures::data_written));
    let access = if results.access.is_empty() { Err(NOT_REPLAYED) } else { Ok(throughput::throughput(&results.access)) };
    figure(&mut page, ("figure-6", "Figure 6: throughput by access pattern"), PATTERNS, &ACCESS, access);
    figure(&mut page, ("figure-7", "Figure 7: response times"), TIMES, &RESPONSE_TIMES, replayed(figures::responses));
    figure(&mut page, ("figure-8", "Figure 8: collections of the flash"), FLASH, &COLLECTED, replayed(figures::collected));
    let parts = if results.parts.runs.is_empty() { NOT_REPLAYED.to_owned() } else { results.parts.html() };
    page.section("parts", "Section III.B: an index in parts", PARTS, &parts);
    page.section("reading", "How to read this", READING, "");
    let loads = runs::names(&results.loads);
    let intro = format!(
        "<p>{tally}. {} replays of {} loads with flash below. app-dedupe.csv beside this page has every one of them.</p>\n\
         <p><a href=\"index.html\">OrderMergeDedup's evaluation</a></p>\n",
        results.loads.len(),
        loads.len()
    );
    page.html("APP-Dedupe's evaluation, measured by Onefold", &intro)
}

/// Adds the section of a figure: what is published, and what was measured, or why nothing was.
fn figure(page: &mut Page, (id, title): (&str, &str), text: &str, published: &[Statement], here: Result<String, &str>) {
    let here = here.unwrap_or_else(str::to_owned);
    page.section(id, title, text, &(statements(published) + &here));
}

fn evaluation(results: &Results) -> Table {
    let mut table = Table::new("Every row that Onefold is judged by", ["published", "goal here", "measured here", "verdict"]);
    for row in rows(results) {
        table.row([row.published, row.goal, &row.measured, row.verdict.name()]);
    }
    table
}

const NOT_REPLAYED: &str = "<p>Not replayed in this run: <code>--loads</code> gives the folder of the loads.</p>\n";
const NOT_MEASURED: &str = "<p>Not measured in this run: <code>./dev bench load-memory load-processor</code> measures it, and the next \
    report shows it.</p>\n";
const PUBLISHED: &str = "Every row is computed from the results below. The count at the top is that of the rows of all papers, as on the \
    other pages. The scheme that is judged is packed, the default of a volume.";
const COST: &str = "Measured live on this machine by another command: the requests of each load, one after the other without think times, \
    go through a server over FUSE and a loop device, once with passthrough and once with a volume. The server's most resident memory and \
    its processor time are given, and what a volume takes beyond passthrough: of memory as a share of the 2 GiB of the paper's phone, of \
    processor time as a share of one processor's while the load ran as it was recorded. The paper gives both for the whole phone.";
const DATA: &str = "Generated are the client's data and the metadata of deduplication; found are those of the client's data that a block \
    held already, zeros included; written is what reached the flash. What is generated is more than found and written together where \
    compressed blocks share one.";
const PATTERNS: &str = "A stand-in for A1 SD Bench: a file of 32 MiB is written and read in requests of 128 KiB, or in single blocks at \
    random places; one read at a time, writes buffered and flushed in the end. The time is that of a model of a tablet's flash, with \
    published latencies by size of a command, and has no processor time. 33.1 % of the blocks repeat earlier ones, the mean redundancy of \
    the paper's applications, in runs of 1, 8 or 32 blocks. With --min-run 8 a volume links only to runs of eight blocks and more, and \
    keeps the others in sequence. There is no cache of a file system.";
const TIMES: &str = "The time from sending a request to its answer, requests of every kind together, on the model of the flash. Under \
    strong persistence a write is answered when it is in the flash, with a volume and without; weak, which is the default, a volume \
    answers it from memory. Fingerprints and compression take no time.";
const FLASH: &str = "A collection moves the valid pages of one block and erases it. The flash begins full and overwritten at random \
    places, the same for every scheme. The last table has the means where it holds, in the beginning, only what the scheme's own device \
    holds in the end: a volume needs fewer pages for the same data, and what is not held is spare.";
const PARTS: &str = "The paper keeps an index for each application, of which those of the active ones are in memory. A load by itself \
    would have one part, which is the whole index; so all loads take turns on one device here, each for ten seconds of its own time, and \
    share the memory for fingerprints. sweep is the one index of a volume, parts the paper's, and undivided the paper's order of use with \
    one part for all. What the paper leaves open is read in favour of the parts. docs/evaluating.md compares them over other traces.";
const READING: &str = "The fifteen loads of data/loads stand in for the paper's applications, which were driven by Monkey or recorded on \
    a phone: real programs on ext4, each alone on its disk, recorded by onefold trace record --disk. They are replayed in virtual time \
    with the recorded think times; a load does in a minute what people do in hours, so that times are those of a busy device. Below is a \
    model of flash of the shape and with the latencies of DiskSim's SSD extension, which the paper uses: pages of 4 KiB, 64 in a block, 8 \
    planes, 15 % spare, greedy cleaning. The blocks that a load reads or writes are moved together, and the volume has no others. The \
    schemes are none (the bare flash), ordered-anticipate (a volume in mode ordered) and packed (a volume in mode log, the default). The \
    loads have no compressed sizes: blocks of a journal and of metadata are assumed to compress to half, and file data not at all.";
