//! The tables of Figures 3, 5 and 9, which are measured live. A caption's sizes are those of its runs.

use crate::laboratory::papers::drawing::html::{Table, change, number, percent};
use crate::laboratory::papers::studies::smartdedup::live::{Distributed, EqualReads, Fio, Live, change_of, equal_change, processor_change};
use crate::laboratory::papers::studies::smartdedup::published::{DEDISBENCH, FIO, MIXES, statements};

const NOT_MEASURED: &str = "<p>Not measured in this run: <code>./dev bench smartdedup-fio smartdedup-mixes smartdedup-dedisbench \
    read-cache-equal dedisbench-live</code> \
    measures it, and the next report shows it.</p>\n";

/// Describes the data of runs: each store with the sizes that were written to it.
fn sizes(all: &[Fio]) -> String {
    let mut found: Vec<String> = Vec::new();
    for fio in all {
        let size = format!("{} MiB on the {} store", fio.mib, fio.store);
        if !found.contains(&size) {
            found.push(size);
        }
    }
    found.join(", ")
}

fn fio_table(caption: &str, all: &[Fio]) -> Table {
    let heads = [
        "store, duplicates, setup",
        "writes, MiB/s",
        "against passthrough",
        "p95 of a write, µs",
        "reads, MiB/s",
        "against passthrough",
        "p50, µs",
        "p95, µs",
        "reads in another order, MiB/s",
        "space saved",
        "units against passthrough",
        "slower than the model",
    ];
    let mut table = Table::new(caption, heads);
    for fio in all {
        let more = |value: fn(&Fio) -> f64| change(change_of(fio, all, value));
        table.row([
            format!("{}, {} %, {}", fio.store, fio.duplicates_percent, fio.setup),
            number(Some(fio.write_mib_per_second), 1),
            more(|fio| fio.write_mib_per_second),
            fio.dirty_bytes.map_or_else(|| format!("{:.0} (page cache)", fio.write_p95_us), |_| number(Some(fio.write_p95_us), 0)),
            number(Some(fio.read_mib_per_second), 1),
            more(|fio| fio.read_mib_per_second),
            number(Some(fio.read_p50_us), 0),
            number(Some(fio.read_p95_us), 0),
            number(fio.other_read_mib_per_second, 1),
            percent(fio.saved),
            more(|fio| fio.units_ratio),
            percent(fio.late_percent.map(|late| late / 100.0)),
        ]);
    }
    table
}

/// Formats Figure 3.
#[must_use]
pub fn fio(live: &Live) -> String {
    if live.fio.is_empty() {
        return statements(&FIO) + NOT_MEASURED;
    }
    let sizes = sizes(&live.fio);
    let caption = format!("Figure 3: fio on ext4, three threads, random blocks of 4 KiB, buffered, {sizes}, {} cores", live.cores);
    let in_turn = equal("Figure 3's reads, once in the order of the writes, all setups in turn, medians", &live.reads);
    let same = equal("Reads with the same bytes of cache: by PBN on a volume, by LBN in the page cache of the bare store", &live.equal);
    statements(&FIO) + &fio_table(&caption, &live.fio).html() + &in_turn + &same
}

/// Formats reads.
fn equal(caption: &str, all: &[EqualReads]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let heads =
        ["store, duplicates, load, setup", "cache, MiB", "reads, MiB/s", "against passthrough", "p95, µs", "not read from the device"];
    let mut table = Table::new(caption, heads);
    for of in all {
        table.row([
            format!("{}, {} %, {}, {}", of.store, of.duplicates_percent, of.load, of.setup),
            number(of.cache_mib, 1),
            number(Some(of.read_mib_per_second), 1),
            change(equal_change(of, all)),
            number(Some(of.read_p95_us), 0),
            percent(Some(of.hits)),
        ]);
    }
    table.html()
}

/// Formats the load with the distribution of scanned data.
fn distributed(all: &[Distributed]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let heads = ["tree, duplicates, setup", "writes, MiB/s", "p99, µs", "reads, MiB/s", "p99, µs", "space saved", "units of passthrough's"];
    let mut table = Table::new("Figure 9 with the distribution of scanned trees and DEDISbench's hot spots, on a slowed store", heads);
    for run in all {
        table.row([
            format!("{}, {} %, {}", run.tree, run.duplicates_percent, run.setup),
            number(Some(run.write_mib_per_second), 1),
            number(Some(run.write_p99_us), 0),
            number(Some(run.read_mib_per_second), 1),
            number(Some(run.read_p99_us), 0),
            percent(run.saved),
            number(Some(run.units_ratio), 3),
        ]);
    }
    table.html()
}

/// Formats Figure 5.
#[must_use]
pub fn mixes(live: &Live) -> String {
    if live.mixes.is_empty() {
        return statements(&MIXES) + NOT_MEASURED;
    }
    let heads = ["mix and setup", "MiB read and written", "seconds", "processor seconds", "against passthrough", "server's memory, MiB"];
    let mut table = Table::new("Figure 5: mixed reads and writes, 25 % duplicates; battery: none here to measure", heads);
    for mix in &live.mixes {
        table.row([
            format!("Mix {}, {}", mix.mix, mix.setup),
            mix.mib.to_string(),
            number(Some(mix.seconds), 1),
            number(Some(mix.cpu_seconds), 1),
            change(processor_change(mix, &live.mixes)),
            number(Some(mix.peak_mib), 1),
        ]);
    }
    statements(&MIXES) + &table.html()
}

/// Formats Figure 9.
#[must_use]
pub fn dedisbench(live: &Live) -> String {
    let scanned = distributed(&live.distributed);
    if live.dedisbench.is_empty() {
        return statements(&DEDISBENCH) + if scanned.is_empty() { NOT_MEASURED } else { &scanned };
    }
    let caption = format!(
        "Figure 9, a stand-in for DEDISbench: fio with four threads, blocks of 4 KiB, a hot spot, as fast as it goes, {}",
        sizes(&live.dedisbench)
    );
    statements(&DEDISBENCH) + &scanned + &fio_table(&caption, &live.dedisbench).html()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(store: &str, mib: u64) -> Fio {
        Fio {
            setup: "passthrough".to_owned(),
            store: store.to_owned(),
            mib,
            duplicates_percent: 25.0,
            write_mib_per_second: 40.0,
            dirty_bytes: None,
            write_p95_us: 4.0,
            read_mib_per_second: 50.0,
            read_p50_us: 10.0,
            read_p95_us: 30.0,
            other_read_mib_per_second: None,
            late_percent: None,
            saved: None,
            units_ratio: 1.0,
        }
    }

    #[test]
    fn the_sizes_of_a_caption_are_those_of_its_runs() {
        let live = Live { cores: 2, fio: vec![run("bare", 2048), run("tablet", 128)], ..Live::default() };
        let html = fio(&live);
        assert!(html.contains("2048 MiB on the bare store, 128 MiB on the tablet store"), "{html}");
        let small = Live { dedisbench: vec![run("bare", 96)], ..Live::default() };
        assert!(dedisbench(&small).contains("96 MiB on the bare store") && dedisbench(&small).contains("stand-in"));
    }
}
