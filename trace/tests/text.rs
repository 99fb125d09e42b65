//! Round trips of generated text: import into a folder and export to the same bytes, through files, as a user's commands do it.

use onefold_trace::error::TraceError;
use onefold_trace::folder::Reader;
use onefold_trace::record::Record;
use onefold_trace::source::ReadOptions;
use onefold_trace::text::Malformed;
use onefold_trace::text::detect::FormName;
use onefold_trace::transfer::{export, import};
use proptest::prelude::*;
use std::path::Path;

/// Generates the hexadecimal digits of `count` fingerprints of `bytes` bytes; some are those of zeros, and many recur.
fn fingerprints(count: usize, bytes: usize, zero: &'static str) -> impl Strategy<Value = Vec<String>> {
    let one = prop_oneof![
        1 => Just(zero[..2 * bytes].to_owned()),
        3 => (0u8..4).prop_map(move |n| format!("{n:02x}").repeat(bytes)),
        4 => prop::collection::vec(any::<u8>(), bytes).prop_map(|b| b.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().concat()),
    ];
    prop::collection::vec(one, count)
}

const ZERO_BLOCK: &str = "620f0b67a91f7f74151bc5be745b7110";
const ZERO_SECTOR: &str = "bf619eac0cdf3f68d496ea9344137e8b";

fn process() -> impl Strategy<Value = String> {
    "[a-zA-Z][a-zA-Z0-9_.:/#-]{0,6}( [a-z0-9]{1,5})?"
}

fn recorded_line() -> impl Strategy<Value = String> {
    let who = || (process(), 0u32..70_000).prop_map(|(process, pid)| format!("{process}/{pid}"));
    let write = (0u64..1 << 40, 1usize..6, "[DMJ?]", "F?WF?S?M?", who())
        .prop_flat_map(|(lba, n, kind, flags, who)| (Just((lba, n, kind, flags, who)), fingerprints(n, 8, ZERO_BLOCK)))
        .prop_map(|((lba, n, kind, flags, who), names)| format!("W\t{lba}\t{n}\t{kind}\t{flags}\t{who}\t{}", names.concat()));
    let other = ("[RDZ]", 0u64..1 << 40, 1u32..999_999, prop_oneof![Just("-".to_owned()), who()])
        .prop_map(|(op, lba, n, who)| format!("{op}\t{lba}\t{n}\t-\tRA\t{who}\t"));
    let mark = "[a-z]{0,9}".prop_map(|phase| format!("M\t0\t0\t-\t-\t-\t{phase}"));
    let rest = prop_oneof![4 => write, 2 => other, 2 => Just("F\t0\t0\t-\t-\t-\t".to_owned()), 1 => mark];
    (0u64..1 << 50, rest).prop_map(|(time, rest)| format!("{time}\t{rest}\n"))
}

fn fiu_line(sectors_each: u32, zero: &'static str) -> impl Strategy<Value = String> {
    (0u64..1 << 60, any::<u32>(), process(), 0u64..1 << 50, 1u32..40, "[RW]", 0u32..300, 0u32..300)
        .prop_flat_map(move |fields| {
            let names = usize::try_from(fields.4.div_ceil(sectors_each)).expect("few");
            (Just(fields), fingerprints(names, 16, zero))
        })
        .prop_map(|((time, pid, process, lba, n, op, major, minor), names)| {
            // Times are later than that of the first line.
            let time = time + (1 << 60);
            format!("{time} {pid} {process} {lba} {n} {op} {major} {minor} {}\n", names.concat())
        })
}

fn mobile_line(tabs: bool) -> impl Strategy<Value = String> {
    (0u64..1 << 30, 0u32..1_000_000_000, "[RW]", 0u64..1 << 50, 1u32..40, any::<u32>(), process())
        .prop_flat_map(|fields| (Just(fields.clone()), fingerprints(usize::try_from(fields.4.div_ceil(8)).expect("few"), 16, ZERO_BLOCK)))
        .prop_map(move |((s, ns, op, lba, n, pid, process), names)| {
            let names = names.join("-");
            match tabs {
                true => format!("{s}.{ns:09} \t{op}\t{lba:>12}\t{n:>10}\t{pid:>10}\t{process:>15}\t{names}\n"),
                false => format!("{s}.{ns:09} {op} {lba} {n} {pid} {process} {names}\n"),
            }
        })
}

fn blkparse_text() -> impl Strategy<Value = String> {
    let line = ((0u32..300, 0u32..300), 0u64..99_999, 0u32..1_000_000_000, any::<u32>(), 0u64..1 << 50, 1u32..4096, process(), 0u8..5);
    prop::collection::vec(line, 1..20).prop_map(|lines| {
        let mut text = String::new();
        for (number, ((major, minor), s, ns, pid, lba, n, process, op)) in lines.into_iter().enumerate() {
            let flags = ["RA", "WS", "FWFS", "D", "FN"][usize::from(op)];
            let place = if flags == "FN" { String::new() } else { format!("{lba} + {n} ") };
            let time = format!("{s}.{ns:09}");
            text += &format!("{major:>3},{minor:<3}  0 {:>8} {time:>15} {pid:>5}  Q {flags:>3} {place}[{process}]\n", number + 1);
        }
        text
    })
}

/// Imports a text into a folder, exports it in the same form, and exports it as CSV and back; checks that text and records are the same.
fn round_trip(form: FormName, text: &str) {
    let place = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| place.path().join(name);
    std::fs::write(at("in"), text).expect("it can be written");
    let mut report = |malformed: &Malformed| panic!("{malformed}\n{text}");
    let how = ReadOptions { form: Some(form), ..ReadOptions::default() };
    let tally = import(&at("in"), &at("folder"), &how, &mut report).expect("it is imported");
    assert_eq!(tally.relaid, 0);
    export(&at("folder"), form, &at("out"), false, &ReadOptions::default(), &mut report).expect("it is exported");
    assert_eq!(std::fs::read_to_string(at("out")).expect("it is text"), text);
    export(&at("folder"), FormName::Csv, &at("csv.zst"), false, &ReadOptions::default(), &mut report).expect("it is exported");
    let csv = ReadOptions { form: Some(FormName::Csv), ..ReadOptions::default() };
    import(&at("csv.zst"), &at("again"), &csv, &mut report).expect("it is imported");
    assert_eq!(records(&at("again")), records(&at("folder")));
    assert_eq!(Reader::open(&at("again")).expect("a trace").header(), Reader::open(&at("folder")).expect("a trace").header());
}

fn records(folder: &Path) -> Vec<Record> {
    Reader::open(folder).expect("a trace").map(|record| record.expect("sound")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn recorded_comes_back(lines in prop::collection::vec(recorded_line(), 0..30)) {
        round_trip(FormName::Recorded, &format!("{}\n{}", onefold_trace::text::recorded::HEADER, lines.concat()));
    }

    #[test]
    fn fiu_comes_back(first in 0u64..1 << 60, lines in prop::collection::vec(fiu_line(8, ZERO_BLOCK), 0..30)) {
        round_trip(FormName::Fiu, &format!("{first} 1 x 0 8 W 8 0 {ZERO_BLOCK}\n{}", lines.concat()));
    }

    #[test]
    fn homes_comes_back(lines in prop::collection::vec(fiu_line(1, ZERO_SECTOR), 0..30)) {
        round_trip(FormName::FiuHomes, &format!("7 1 x 0 1 W 8 0 {ZERO_SECTOR}\n{}", lines.concat()));
    }

    #[test]
    fn mobile_comes_back(
        lines in prop::collection::vec(mobile_line(false), 1..30),
        published in prop::collection::vec(mobile_line(true), 1..30),
    ) {
        round_trip(FormName::Mobile, &lines.concat());
        round_trip(FormName::Mobile, &published.concat());
    }

    #[test]
    fn blkparse_comes_back(text in blkparse_text()) {
        round_trip(FormName::Blkparse, &text);
    }
}

/// Makes a text of `good` valid lines and `bad` malformed ones.
fn sample(good: usize, bad: usize) -> String {
    (0..good).map(|n| format!("{n} 1 x {} 8 W 8 0 {ZERO_BLOCK}\n", n * 8)).chain((0..bad).map(|_| "garbage\n".to_owned())).collect()
}

#[test]
fn more_than_one_in_a_hundred_malformed_is_refused_and_leaves_nothing() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| place.path().join(name);
    let take = |text: &str, lenient: bool, into: &str| {
        std::fs::write(at("in"), text).expect("it can be written");
        let mut lines = Vec::new();
        let how = ReadOptions { lenient, ..ReadOptions::default() };
        let taken = import(&at("in"), &at(into), &how, &mut |m: &Malformed| lines.push(m.line));
        (taken, lines)
    };
    let (taken, lines) = take(&sample(196, 4), false, "refused");
    assert!(matches!(taken, Err(TraceError::Malformed { malformed: 4, lines: 200, .. })), "{taken:?}");
    assert_eq!(lines, [197, 198, 199, 200]);
    let left: Vec<_> = std::fs::read_dir(place.path()).expect("it is there").map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(left, ["in"], "nothing half-written");

    let (taken, _) = take(&sample(198, 2), false, "one in a hundred");
    assert_eq!(taken.expect("it is taken").malformed, 2);
    let (taken, _) = take(&sample(20, 4), true, "lenient");
    assert_eq!(taken.expect("it is taken").records, 20);
    let (taken, _) = take(&sample(20, 0), false, "lenient");
    assert!(matches!(taken, Err(TraceError::Exists { .. })), "{taken:?}");
}

#[test]
fn an_export_that_does_not_fit_leaves_nothing() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| place.path().join(name);
    std::fs::write(at("in.csv"), "time_ns,op,offset,length\n1,write,0,512\n2,flush,0,0\n").expect("it can be written");
    let mut report = |malformed: &Malformed| panic!("{malformed}");
    let exported = export(&at("in.csv"), FormName::Fiu, &at("out"), false, &ReadOptions::default(), &mut report);
    assert!(matches!(exported, Err(TraceError::Unwritable { .. })), "a trace without fingerprints: {exported:?}");
    std::fs::write(at("in.fiu"), sample(1, 0)).expect("it can be written");
    std::fs::write(at("in.tsv"), "1\tF\t0\t0\t-\t-\t-\t\n").expect("it can be written");
    let exported = export(&at("in.tsv"), FormName::Recorded, &at("out"), false, &ReadOptions::default(), &mut report);
    assert_eq!(exported.expect("it fits").read.records, 1);
    let again = export(&at("in.fiu"), FormName::Mobile, &at("out"), false, &ReadOptions::default(), &mut report);
    assert!(matches!(again, Err(TraceError::Exists { .. })), "{again:?}");
    export(&at("in.fiu"), FormName::Mobile, &at("out"), true, &ReadOptions::default(), &mut report).expect("it replaces");
    let mixed = format!(
        "#onefold-trace version=1 algorithm=md5 width=16 gaps=[]\n\
         time_ns,op,offset,length,fingerprints\n1,flush,0,0,\n2,write,0,4096,{ZERO_BLOCK}\n"
    );
    std::fs::write(at("mixed.csv"), mixed).expect("it can be written");
    let exported = export(&at("mixed.csv"), FormName::Fiu, &at("new"), false, &ReadOptions::default(), &mut report);
    assert!(matches!(exported, Err(TraceError::Unfit { unfit: 1, number: 1, .. })), "{exported:?}");
    assert!(!at("new").exists());
    let lenient = ReadOptions { lenient: true, ..ReadOptions::default() };
    assert_eq!(export(&at("mixed.csv"), FormName::Fiu, &at("new"), false, &lenient, &mut report).expect("one is left out").unfit, 1);
}
