//! The cost of metadata, by class: per client unit and per epoch; and the trees of `shadow`, page by page.

use crate::laboratory::papers::drawing::chart::figure;
use crate::laboratory::papers::drawing::chart::{Bar, Chart, Group};
use crate::laboratory::papers::drawing::html::{Table, number};
use crate::laboratory::papers::pages::figures::halves;
use crate::laboratory::papers::results::Results;
use crate::laboratory::papers::studies::mode::Mode;
use crate::laboratory::papers::studies::workloads::Workload;
use crate::laboratory::replay::scheme::Scheme;

const CLASSES: [&str; 6] = ["refs", "map", "fingerprints", "written", "superblock", "log"];
/// The schemes that have metadata, and a letter for each.
const SCHEMES: [(Scheme, &str); 8] = [
    (Scheme::Journal, "J"),
    (Scheme::Shadow, "S"),
    (Scheme::OrderedOnly, "O"),
    (Scheme::Ordered, "N"),
    (Scheme::OrderedAnticipate, "A"),
    (Scheme::Log, "L"),
    (Scheme::Carried, "C"),
    (Scheme::Packed, "P"),
];

/// Formats the charts and tables of one mode.
#[must_use]
pub fn metadata(results: &Results, mode: Mode, top: f64) -> String {
    let mut out = String::new();
    for (id, which, workloads) in halves(results).iter().filter(|(_, _, workloads)| !workloads.is_empty()) {
        let chart = Chart {
            id: &format!("metadata-{}-{id}", mode.id()),
            title: format!(
                "Metadata by class, {}, {which} \
                 (J journal, S shadow, O ordered-only, N ordered, A ordered-anticipate, L log, C carried, P packed)",
                mode.name()
            ),
            axis: "units of metadata ÷ units the client wrote",
            series: &CLASSES,
            marks: &[],
            top,
            bar_width: if *id == "paper" { 22 } else { 13 },
            groups: workloads.iter().map(|w| group(results, w, mode)).collect(),
        };
        out += &figure(&chart);
    }
    out += &table(results, mode).html();
    out
}

fn group(results: &Results, w: &Workload, mode: Mode) -> Group {
    let bar = |&(scheme, letter): &(Scheme, &str)| {
        let f = results.figures(w, scheme, mode);
        let parts = CLASSES.iter().enumerate().map(|(i, class)| (i, f.and_then(|f| f.metadata_per_unit.get(*class).copied())));
        Bar { label: letter.to_owned(), parts: parts.collect() }
    };
    Group { label: w.short(), bars: SCHEMES.iter().map(bar).collect(), marks: Vec::new() }
}

fn table(results: &Results, mode: Mode) -> Table {
    let mut heads = vec!["workload and scheme".to_owned(), "epochs".to_owned(), "device flushes an epoch".to_owned()];
    heads.extend(CLASSES.map(|class| format!("{class}, per unit")));
    heads.extend(CLASSES.map(|class| format!("{class}, per epoch")));
    let mut table = Table::new(format!("Metadata units for each client unit and for each epoch, {}", mode.name()), heads);
    for w in results.workloads() {
        for (scheme, _) in SCHEMES {
            let Some(f) = results.figures(w, scheme, mode) else { continue };
            let epochs = f.epochs_all.map_or_else(|| "–".to_owned(), |n| n.to_string());
            let mut row = vec![format!("{}, {}", w.short(), scheme.name()), epochs, number(f.flush_ratio, 2)];
            row.extend(CLASSES.map(|class| number(f.metadata_per_unit.get(class).copied(), 4)));
            row.extend(CLASSES.map(|class| number(f.metadata_per_epoch.as_ref().and_then(|m| m.get(class).copied()), 2)));
            table.row(row);
        }
    }
    table
}

/// The facts of `shadow`, and their headings.
const FACTS: [(&str, &str); 6] = [
    ("height: tree lbn", "height, LBN tree"),
    ("height: tree fingerprints", "height, fingerprint tree"),
    ("height: counts of 0 to 2", "height, space map"),
    ("height: counts of 3 and more", "height, large counts"),
    ("commits", "commits"),
    ("dirty pages of the largest commit", "dirty pages, most"),
];
/// The pages of `shadow`, by the structure that they belong to.
const PAGES: [(&str, &str); 7] = [
    ("pages written: tree lbn", "LBN tree"),
    ("pages written: tree fingerprints", "fingerprint tree"),
    ("pages written: counts of 0 to 2", "space map"),
    ("pages written: counts of 3 and more", "large counts"),
    ("pages written: freed pages", "freed pages"),
    ("pages written: roots of the trees", "roots"),
    ("pages written: superblock", "superblock"),
];

/// Formats the trees of `shadow`, from opening to close.
#[must_use]
pub fn trees(results: &Results, mode: Mode) -> String {
    let mut heads = vec!["workload".to_owned()];
    heads.extend(FACTS.map(|(_, head)| head.to_owned()));
    heads.push("dirty pages a commit".to_owned());
    heads.extend(PAGES.map(|(_, head)| format!("{head}, a commit")));
    let mut table = Table::new(format!("The trees of shadow, {}, from opening to close", mode.name()), heads);
    for w in results.workloads() {
        let Some(timed) = results.of(w.trace, Scheme::Shadow, mode, w.device) else { continue };
        let fact = |name: &str| timed.report.facts.get(name).copied();
        #[allow(clippy::cast_precision_loss)] // counts of one run are far below 2^52
        let a_commit =
            |name: &str| number(fact(name).zip(fact("commits")).filter(|c| c.1 > 0).map(|(n, commits)| n as f64 / commits as f64), 2);
        let mut row = vec![w.short()];
        row.extend(FACTS.map(|(name, _)| fact(name).map_or_else(|| "–".to_owned(), |n| n.to_string())));
        row.push(a_commit("dirty pages of all commits"));
        row.extend(PAGES.map(|(name, _)| a_commit(name)));
        table.row(row);
    }
    table.html()
}
