//! The page of Using Hints' evaluation.

use super::figures::table;
use super::rows::rows;
use crate::laboratory::papers::drawing::html::{Page, Table};
use crate::laboratory::papers::results::Results;
use crate::laboratory::papers::studies::hints::cases::{Commit, Hint, Load};
use crate::laboratory::papers::studies::hints::published::speed_up;
use crate::laboratory::papers::studies::hints::runs::MODELS;
use crate::laboratory::papers::verdict::Tally;

/// Formats the whole page.
///
/// # Errors
/// Fails if a figure lacks replays, although others were done.
pub fn page(results: &Results, tally: Tally) -> Result<String, String> {
    let mut page = Page::default();
    page.section("published", "Measured against published", PUBLISHED, &evaluation(results).html());
    for (figure, title, text) in [
        (3, "Figure 3: NODEDUP, a unique dd", DD),
        (4, "Figure 4: PREFETCH, a copied file", COPY),
        (5, "Figure 5: NODEDUP, a file server", SERVER),
    ] {
        let mut html = statements(figure);
        for load in Load::ALL.into_iter().filter(|load| load.figure() == figure) {
            if results.hints.is_empty() {
                html += NOT_REPLAYED;
                continue;
            }
            for model in MODELS {
                html += &table(&results.hints, load, model)?;
            }
        }
        page.section(&format!("figure-{figure}"), title, text, &html);
    }
    let live = if results.hints_live.table_1.is_empty() { NOT_MEASURED.to_owned() } else { String::new() };
    page.section("table-1", "Table 1: metadata among the writes", TABLE_1, &(live + &results.hints_live.table()));
    page.section("reading", "How to read this", READING, "");
    let size = results.hints.first().map_or_else(String::new, |run| {
        format!(
            " The dd of this report has {} block writes of 4 KiB, the paper's 1,048,576; the other loads have the same scale.",
            run.writes
        )
    });
    let intro = format!("<p>{tally}.{size}</p>\n<p><a href=\"index.html\">OrderMergeDedup's evaluation</a></p>\n");
    Ok(page.html("The evaluation of Using Hints, measured by Onefold", &intro))
}

fn evaluation(results: &Results) -> Table {
    let mut table = Table::new("Every row that Onefold is judged by", ["published", "goal here", "measured here", "verdict"]);
    for row in rows(results) {
        table.row([row.published, row.goal, &row.measured, row.verdict.name()]);
    }
    table
}

/// Formats what the text of the paper says of a figure.
fn statements(figure: u8) -> String {
    let mut table = Table::new("Published", ["duplicates, flush of metadata, hint", "statement"]);
    for load in Load::ALL.into_iter().filter(|load| load.figure() == figure) {
        for commit in [Commit::Thousand, Commit::Each] {
            for hint in [Hint::Metadata, Hint::All] {
                if let Some((.., says)) = speed_up(load, commit, hint) {
                    table.row([format!("{}, {}, {}", load.duplicates(), commit.name(), hint.name()), says.to_owned()]);
                }
            }
        }
    }
    table.html()
}

const NOT_REPLAYED: &str = "<p>Not replayed in this run: <code>--hint-writes</code> gives the size of its loads.</p>\n";
const NOT_MEASURED: &str = "<p>Not measured in this run: <code>./dev bench hints-table-1</code> measures it, and the next report shows \
    it.</p>\n";
const PUBLISHED: &str = "Every row is computed from the results below. The count at the top is that of the rows of all papers, as on the \
    other pages.";
const DD: &str = "A unique file is written in sequence. The hint is on all of its writes.";
const COPY: &str = "A file is read, 32 blocks at a time, and written to another place, twice. The hint is on all reads. At 8:1 each \
    content of the file occurs eight times in it, in a drawn order.";
const SERVER: &str = "A stand-in for Filebench: files of 32 blocks are written, replaced and appended to. 18.9 % of the writes are journal \
    and metadata, 61.2 % of them unique, as the paper's Table 1 has it of Ext4: a journal, and its blocks written home with the same \
    content. The hint is on metadata, or on all writes. At 4:1 each content of data occurs four times; there the paper has metadata marked \
    alone.";
const TABLE_1: &str = "Measured live by another command: a file server's load, in blocks of 4 KiB, on each file system that this kernel \
    has, over FUSE and a loop device. The kernel's mark for metadata is seen by the observer of hints.";
const READING: &str = "The schemes are Onefold in mode ordered with its default settings, Onefold in mode log with its default settings \
    (packed), and the design of Dmdedup (shadow), which has both hints as the paper built them: a block with NODEDUP is not looked up in \
    the hash index and has no entry there; a read with PREFETCH puts the hash with its place into a cache of 16,384 entries, where a write \
    looks first, and a found entry goes. Shadow's cache of metadata has 1, 2, 5 or 10 % of an estimate of all its metadata: 16 bytes a \
    block and 28 a content, in tree nodes that are two thirds full. A leaf that a write looks up and that is not in the cache is read, one \
    after the other, as by Dmdedup's one worker. Onefold gets the same number of bytes for its index in memory (--index-memory), and four \
    times as many, or 2 MiB if that is more, in all (--memory). Metadata are flushed every write: strong persistence, 32 writes \
    outstanding, where shadow commits each block alone; or the client flushes after each thousand writes. There is one medium for data and \
    metadata; the paper had a disk drive for data and an SSD for metadata. Times are those of a model of the medium. On sata a write takes \
    little more than its time on the bus, as on a disk drive that is written in sequence; on 850pro it takes longer than a look-up, which \
    hides behind it. Times have no processor time, which the paper's gain has in it: the hashes that are not computed. So times faster \
    compare schemes here, and can only roughly be compared with the paper's.";
