//! The page of the log: the units and flushes by the size of its epochs.

use crate::laboratory::papers::drawing::html::{Table, number};
use crate::laboratory::papers::pages::log::{MODES, float, runs};
use crate::laboratory::papers::pages::target::COUNTED_ON;
use crate::laboratory::papers::results::Results;
use crate::laboratory::papers::studies::mode::Mode;
use crate::laboratory::papers::studies::workloads::{MODELS, of_trace};
use crate::laboratory::replay::scheme::Scheme;
use crate::machine::account::SentUnits;

/// Write ratios of `carried`, weak, computed from the same traces (issue 6).
const ARITHMETIC: [(&str, f64); 8] = [
    ("03_apt_upgrade_release", 0.818),
    ("04_browse_firefox", 0.580),
    ("05_vehicle", 0.794),
    ("06_hadoop_grep", 0.479),
    ("08_ycsb_wiredtiger", 0.780),
    ("10_phone_mix", 0.852),
    ("13_pkg_trees", 0.671),
    ("15_build", 0.720),
];

/// Formats the page's tables.
#[must_use]
pub fn tables(results: &Results) -> String {
    let mut out = ratios(results).html() + &recorded(results).html();
    for mode in MODES {
        out += &judged(results, mode).html();
        out += &by_size(results, mode).html();
    }
    out
}

fn ratios(results: &Results) -> Table {
    let mut heads = vec!["workload".to_owned(), "carried by arithmetic, weak".to_owned()];
    for mode in MODES {
        let of_mode = ["ideal", "bound"].into_iter().chain(Scheme::LOGS.map(Scheme::name));
        heads.extend(of_mode.chain(["bound, opening to close", "packed, opening to close"]).map(|head| format!("{head}, {}", mode.id())));
    }
    let mut table = Table::new("Write ratios of the log, its ideal and its bound, on the model \"instant\"", heads);
    for trace in results.traces() {
        let arithmetic = ARITHMETIC.iter().find(|(name, _)| *name == trace).map(|&(_, ratio)| ratio);
        let mut row = vec![trace.clone(), number(arithmetic, 3)];
        for mode in MODES {
            let of = |scheme| results.of(&trace, scheme, mode, COUNTED_ON).map(|t| &t.report.measured);
            row.extend([number(of(Scheme::Packed).map(|f| f.ideal), 3), number(of(Scheme::Packed).map(|f| f.bound), 3)]);
            row.extend(Scheme::LOGS.map(|scheme| number(of(scheme).map(|f| f.write_ratio), 3)));
            let whole = results.of(&trace, Scheme::Packed, mode, COUNTED_ON).map(|t| &t.report.whole);
            row.extend([number(whole.map(|f| f.bound), 3), number(whole.map(|f| f.write_ratio), 3)]);
        }
        table.row(row);
    }
    table
}

/// Formats the traces that were recorded here, on every model.
fn recorded(results: &Results) -> Table {
    let schemes = [Scheme::Ordered, Scheme::Log, Scheme::Carried, Scheme::Packed];
    let mut heads = vec!["trace, persistence, model", "ideal", "bound"];
    heads.extend(schemes.map(Scheme::name));
    heads.extend(["packed above the bound", "epochs of the bound", "epochs of packed"]);
    let mut table = Table::new("Traces recorded with true sizes: write ratios", heads);
    for trace in results.traces().iter().filter(|trace| of_trace(trace).is_none()) {
        for (mode, model) in MODES.into_iter().flat_map(|mode| MODELS.map(|model| (mode, model))) {
            let of = |scheme| results.of(trace, scheme, mode, model).map(|t| &t.report.measured);
            let Some(packed) = of(Scheme::Packed) else { continue };
            let mut row = vec![format!("{trace}, {}, {model}", mode.id()), number(Some(packed.ideal), 3), number(Some(packed.bound), 3)];
            row.extend(schemes.map(|scheme| number(of(scheme).map(|f| f.write_ratio), 3)));
            row.push(format!("{:+.3}", packed.write_ratio - packed.bound));
            row.extend([packed.bound_epochs, packed.epochs_all.unwrap_or(0)].map(|n| n.to_string()));
            table.row(row);
        }
    }
    table
}

fn judged(results: &Results, mode: Mode) -> Table {
    let heads = [
        "trace and scheme",
        "client's units",
        "epochs of up to 64 new blocks",
        "larger ones",
        "device flushes",
        "allowed",
        "metadata units",
        "allowed",
        "flushes with nothing to commit",
        "device flushes for them",
    ];
    let mut table = Table::new(format!("Flushes and metadata, measured and allowed, {}, on the model \"instant\"", mode.name()), heads);
    for run in runs(results, mode, COUNTED_ON) {
        let (small, large) = run.epochs.small_and_large();
        let f = run.figures;
        table.row([
            run.name(),
            f.client_units.to_string(),
            small.to_string(),
            large.to_string(),
            f.device_flushes.to_string(),
            number(Some(run.flushes_max()), 0),
            f.metadata_units_all.to_string(),
            number(run.metadata_max(), 0),
            f.idle_flushes.to_string(),
            f.idle_device_flushes.to_string(),
        ]);
    }
    table
}

/// The kinds of epoch, in the order of [`crate::machine::account::LogEpochs::all`].
const KINDS: [&str; 4] = ["up to 64 new blocks, some in slots", "up to 64, none in slots", "more than 64", "without a client's write"];

fn by_size(results: &Results, mode: Mode) -> Table {
    let heads =
        ["trace, scheme, epochs", "epochs", "new blocks", "in slots", "plain units", "carriers", "packs", "device flushes", "an epoch"];
    let caption = format!("Units and flushes by the size of the log's epochs, {}, on the model \"instant\"", mode.name());
    let mut table = Table::new(caption, heads);
    for run in runs(results, mode, COUNTED_ON) {
        let (e, f) = (run.epochs, run.figures);
        for (kind, sent) in KINDS.iter().zip(e.all()).filter(|(_, sent)| sent.epochs > 0) {
            let (packs, packed) = if sent == e.large { (e.packs, e.packed_blocks) } else { (0, 0) };
            let SentUnits { epochs, new_blocks, riders, plain, carriers, flushes } = sent;
            let each = number(Some(float(flushes) / float(epochs)), 3);
            let counts = [epochs, new_blocks, riders + packed, plain, carriers, packs, flushes].map(|n| n.to_string());
            table.row([format!("{}: {kind}", run.name())].into_iter().chain(counts).chain([each]));
        }
        let epochs = e.all();
        let flushes: u64 = f.device_flushes - epochs.iter().map(|sent| sent.flushes).sum::<u64>();
        let pages = f.metadata_units_all.saturating_sub(e.plain());
        let dash = "–".to_owned();
        table.row([
            format!("{}: checkpoints and everything else: {pages} units of metadata", run.name()),
            dash.clone(),
            dash.clone(),
            dash.clone(),
            dash.clone(),
            dash.clone(),
            dash.clone(),
            flushes.to_string(),
            dash,
        ]);
    }
    table
}
