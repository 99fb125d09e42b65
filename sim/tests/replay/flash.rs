//! Flash below a replay: its pages are the units that the device counts, its times reach the client, and earlier phases leave no trace.

use crate::{on, records, trace};
use onefold_engine::settings::Persistence;
use onefold_sim::laboratory::flash::aging::{Past, aged};
use onefold_sim::laboratory::flash::{Flash, Shape};
use onefold_sim::laboratory::replay::report::Report;
use onefold_sim::laboratory::replay::run::{Plan, replay};
use onefold_sim::laboratory::replay::scheme::{IndexLimits, Scheme, ready};
use std::fmt::Write as _;
use std::sync::Arc;

const BLOCKS: u64 = 4000;
/// The time of a page over the channel and into the cells, in microseconds.
const PROGRAM_US: f64 = 302.4;

/// Trims everything, fills a part, and overwrites it in the measured phase, with a flush after every fourth write.
fn overwrites() -> String {
    let mut lines = format!("0 D 0 {BLOCKS}\n1 W 0 1 W 1\n2 M 0 0 run\n");
    for n in 0..2000_u64 {
        let (at, name) = (n * 7919 % 3000, n % 1500 + 256);
        writeln!(lines, "{} W {at} 1 W {name:016x}", 10 + n * 1000).expect("a string takes any text");
        if n % 4 == 3 {
            writeln!(lines, "{} F 0 0", 11 + n * 1000).expect("a string takes any text");
        }
    }
    lines
}

fn flash_for(scheme: Scheme, past: &Past) -> Flash {
    let made = ready(scheme, Persistence::Weak, BLOCKS, Plan::default().memory_bytes, IndexLimits::default()).expect("a volume");
    aged(Shape { planes: 2, block_pages: 16, ..Shape::new(made.device_bytes.0) }, past).expect("it can be")
}

fn report(lines: &str, scheme: Scheme, flash: Option<Flash>) -> Report {
    let trace = trace(lines);
    let plan = Plan { scheme, flash: flash.map(Arc::new), ..on("instant") };
    replay("flash", records(&trace), BLOCKS, &plan).unwrap_or_else(|error| panic!("{}: {error}", scheme.name()))
}

#[test]
fn the_pages_of_the_flash_are_the_units_of_the_device_on_every_scheme() {
    for scheme in Scheme::ALL {
        let report = report(&overwrites(), scheme, Some(flash_for(scheme, &Past::default())));
        let flash = report.measured.flash.expect("there is one");
        assert_eq!(flash.counts.host_pages, report.measured.device_units_all, "{}", scheme.name());
        assert_eq!(flash.counts.read_pages, report.measured.device_read_units, "{}", scheme.name());
        assert!(flash.counts.collections > 0 && flash.amplification > 1.5, "{}: {flash:?}", scheme.name());
        assert_eq!(report.device_model, "flash");
        // The counts are those of the phase, the wear that since its beginning.
        let whole = report.whole.flash.expect("there is one");
        assert!(whole.counts.collections >= flash.wear.erases && flash.wear.erases == flash.counts.collections, "{}", scheme.name());
    }
}

#[test]
fn without_a_flash_nothing_is_said_of_one() {
    let report = report(&overwrites(), Scheme::Packed, None);
    assert_eq!((report.measured.flash, report.whole.flash, report.device_model.as_str()), (None, None, "instant"));
}

#[test]
fn the_measured_phase_begins_with_the_flash_as_it_was_given() {
    let lines = overwrites();
    let later = lines.lines().skip(2).fold(String::new(), |all, line| all + line + "\n");
    let collections = |lines: &str| {
        let flash = report(lines, Scheme::None, Some(flash_for(Scheme::None, &Past::default()))).measured.flash;
        flash.expect("there is one").counts.collections
    };
    assert_eq!(collections(&lines), collections(&later), "a trim of everything before it does not make it easier");
    // In the measured phase itself it does.
    let trimmed = later.replacen("2 M 0 0 run\n", &format!("2 M 0 0 run\n3 D 0 {BLOCKS}\n"), 1);
    assert!(collections(&trimmed) * 2 < collections(&lines), "{} and {}", collections(&trimmed), collections(&lines));
}

#[test]
fn a_client_waits_for_the_flash() {
    let empty = Past { full: 0.0, ..Past::default() };
    let lines = "0 M 0 0 run\n10 W 0 1 W a\n100010 W 0 2 W b c\n200010 W 2 1 W d\n300010 F 0 0\n400010 R 0 4\n";
    let report = report(lines, Scheme::None, Some(flash_for(Scheme::None, &empty)));
    let write = &report.measured.latency_us["write"];
    assert_eq!((write.count, write.p50, write.max), (3, PROGRAM_US, PROGRAM_US), "two planes work at once");
    // Two pages come from each plane, 25 us and 102.4 us each; but one of them holds nothing.
    assert_eq!(report.measured.latency_us["read"].max, 2.0 * 127.4);
    assert_eq!(report.measured.latency_us["flush"].max, 0.0);
    let all = report.measured.flash.expect("there is one").response_us;
    assert_eq!((all.count, all.max), (5, PROGRAM_US));
    assert!((all.mean - (3.0 * PROGRAM_US + 254.8) / 5.0).abs() < 1e-9, "{all:?}");
}

#[test]
fn a_flash_that_is_too_small_is_an_error() {
    let trace = trace(&overwrites());
    let small = aged(Shape::new(1 << 20), &Past::default()).expect("it can be");
    let plan = Plan { scheme: Scheme::None, flash: Some(Arc::new(small)), ..on("instant") };
    let error = replay("flash", records(&trace), BLOCKS, &plan).unwrap_err();
    assert!(error.contains("beyond the end of a flash of 1048576 bytes"), "{error}");
}
