//! The tables of Figures 3, 5 and 9, which are measured live. A caption's sizes are those of its runs.

use super::live::{Fio, Live, change_of, processor_change};
use super::published::{DEDISBENCH, FIO, MIXES, statements};
use crate::papers::html::{Table, change, number, percent};

const NOT_MEASURED: &str = "<p>Not measured in this run: <code>./dev bench smartdedup-fio smartdedup-mixes smartdedup-dedisbench</code> \
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
        "p95 of a write into the page cache, µs",
        "reads, MiB/s",
        "against passthrough",
        "p50, µs",
        "p95, µs",
        "space saved",
        "units against passthrough",
    ];
    let mut table = Table::new(caption, heads);
    for fio in all {
        let more = |value: fn(&Fio) -> f64| change(change_of(fio, all, value));
        table.row([
            format!("{}, {} %, {}", fio.store, fio.duplicates_percent, fio.setup),
            number(Some(fio.write_mib_per_second), 1),
            more(|fio| fio.write_mib_per_second),
            number(Some(fio.write_p95_us), 0),
            number(Some(fio.read_mib_per_second), 1),
            more(|fio| fio.read_mib_per_second),
            number(Some(fio.read_p50_us), 0),
            number(Some(fio.read_p95_us), 0),
            percent(fio.saved),
            more(|fio| fio.units_ratio),
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
    statements(&FIO) + &fio_table(&caption, &live.fio).html()
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
    if live.dedisbench.is_empty() {
        return statements(&DEDISBENCH) + NOT_MEASURED;
    }
    let caption = format!(
        "Figure 9, a stand-in for DEDISbench: fio with four threads, blocks of 4 KiB, a hot spot, as fast as it goes, {}",
        sizes(&live.dedisbench)
    );
    statements(&DEDISBENCH) + &fio_table(&caption, &live.dedisbench).html()
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
            write_p95_us: 4.0,
            read_mib_per_second: 50.0,
            read_p50_us: 10.0,
            read_p95_us: 30.0,
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
