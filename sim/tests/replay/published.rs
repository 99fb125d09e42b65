//! Traces in the published forms: imported, replayed, and exported to the same bytes. The samples are generated in the forms that the
//! publishers describe: FIU's with an MD5 for each 4096 bytes and, for the set `homes`, for each 512; MobileTraces' with either layout.

use crate::on;
use fastrand::Rng;
use onefold_engine::settings::Persistence;
use onefold_sim::laboratory::replay::report::Report;
use onefold_sim::laboratory::replay::run::{Plan, replay};
use onefold_sim::laboratory::replay::scheme::Scheme;
use onefold_trace::info::{Counter, Info};
use onefold_trace::source::{ReadOptions, Source};
use onefold_trace::text::detect::FormName;
use onefold_trace::transfer::{export, import};
use std::fmt::Write as _;
use std::path::Path;

/// The number of blocks of the device that all samples lie on.
const BLOCKS: u64 = 4000;
const ZERO_BLOCK: &str = "620f0b67a91f7f74151bc5be745b7110";
const ZERO_SECTOR: &str = "bf619eac0cdf3f68d496ea9344137e8b";

/// Returns an MD5 for a content.
fn md5(content: u8) -> String {
    format!("{content:02x}").repeat(16)
}

fn digests(contents: &[u8]) -> String {
    contents.iter().map(|&content| md5(content)).collect()
}

fn replayed(from: &Path, plan: &Plan) -> Report {
    let source = Source::open(from, &ReadOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    replay("sample", source, BLOCKS, plan).unwrap_or_else(|error| panic!("{}, {}: {error}", from.display(), plan.scheme.name()))
}

fn counted(from: &Path) -> Info {
    let mut source = Source::open(from, &ReadOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    let mut counter = Counter::new();
    let unit = |source: &Source| source.unit();
    let count = |source: &Source, record| {
        counter.count(&record, unit(source));
        Ok(())
    };
    source.each(&ReadOptions::default(), &mut |malformed| panic!("{malformed}"), count).unwrap_or_else(|error| panic!("{error}"));
    counter.info(&source.header())
}

/// Imports a text into a folder, replays both on this plan, and exports the folder; returns the report of the replay, and the counts of
/// `trace info`.
fn there_and_back(form: FormName, text: &str, plan: &Plan) -> (Report, Info) {
    let place = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| place.path().join(name);
    std::fs::write(at("in"), text).expect("it can be written");
    let mut report = |malformed: &onefold_trace::text::Malformed| panic!("{malformed}");
    let tally =
        import(&at("in"), &at("folder"), &ReadOptions { form: Some(form), ..ReadOptions::default() }, &mut report).expect("it is imported");
    assert_eq!(tally.records, text.lines().count() as u64);
    let of_folder = replayed(&at("folder"), plan);
    assert_eq!(of_folder, replayed(&at("in"), plan), "{form}: the folder and the text it was imported from");
    export(&at("folder"), form, &at("out"), false, &ReadOptions::default(), &mut report).expect("it is exported");
    assert!(std::fs::read_to_string(at("out")).expect("it is text") == text, "{form}: exported otherwise than imported");
    (of_folder, counted(&at("folder")))
}

/// The schemes that accept requests of any alignment; the rivals accept whole blocks only, and refuse others.
const OURS: [Scheme; 3] = [Scheme::OrderedOnly, Scheme::Ordered, Scheme::OrderedAnticipate];

fn every_plan() -> impl Iterator<Item = Plan> {
    let persistences = [Persistence::Weak, Persistence::Strong];
    OURS.into_iter().flat_map(move |scheme| persistences.map(|persistence| Plan { scheme, persistence, ..on("ufs") }))
}

#[test]
fn fiu_by_hand() {
    let (a, b, c, d, e) = (md5(1), md5(2), md5(3), md5(4), md5(5));
    // There are a request of two MD5s, zeros, a read, a sector, nine sectors (the second MD5 is that of the ninth alone), and half a block
    // inside one.
    let text = format!(
        "5000 7 gzip 0 8 W 8 0 {a}\n6000 7 gzip -9 8 16 W 8 0 {a}{b}\n7000 7 x 24 8 W 8 0 {ZERO_BLOCK}\n8000 7 x 0 16 R 8 0 {a}{a}\n\
         9000 7 x 32 1 W 8 0 {c}\n9500 7 x 40 9 W 8 0 {d}{e}\n9600 7 x 42 4 W 8 0 {c}\n"
    );
    for plan in every_plan() {
        let (report, info) = there_and_back(FormName::Fiu, &text, &plan);
        let f = &report.whole;
        assert_eq!((f.client_units, f.client_writes, f.client_reads), (8, 6, 1), "{}", plan.scheme.name());
        assert_eq!((f.duplication.shares.live, f.duplication.shares.ever, f.duplication.shares.zero), (1.0 / 8.0, 1.0 / 8.0, 1.0 / 8.0));
        assert_eq!((info.total.blocks_written, info.total.duplicates_live, info.total.zeros), (8, 1, 1));
        // Blocks 0 to 6 hold something in the end, and 0 and 1 the same.
        assert_eq!(report.space.client_blocks, 7);
    }
}

#[test]
fn homes_by_hand() {
    let block = digests(&[1, 2, 3, 4, 5, 6, 7, 8]);
    let other = digests(&[9; 8]);
    // There are a block; the same and another one in one request of 16 MD5s; one sector of the second block rewritten with what it holds,
    // and then with something else; eight sectors that begin inside a block; a block of zeros.
    let text = format!(
        "1 1 nfsd 0 8 W 8 1 {block}\n2 1 nfsd 8 16 W 8 1 {block}{other}\n3 1 nfsd 10 1 W 8 1 {}\n4 1 nfsd 10 1 W 8 1 {}\n\
         5 1 nfsd 0 8 R 8 1 {block}\n\
         6 1 nfsd 36 8 W 8 1 {block}\n7 1 nfsd 48 8 W 8 1 {}\n",
        md5(3),
        md5(4),
        ZERO_SECTOR.repeat(8)
    );
    for plan in every_plan() {
        let (report, info) = there_and_back(FormName::FiuHomes, &text, &plan);
        let f = &report.whole;
        assert_eq!((f.client_units, f.client_writes, f.client_reads), (8, 6, 1), "{}", plan.scheme.name());
        // The duplicates are the second copy, and the sector that changed nothing.
        assert_eq!((f.duplication.shares.live, f.duplication.shares.zero), (2.0 / 8.0, 1.0 / 8.0));
        // `trace info` names only whole blocks: the sector has unknown content for it, and so do the two blocks of the shifted request.
        assert_eq!((info.total.blocks_written, info.total.duplicates_live, info.total.unknown, info.total.zeros), (8, 1, 4, 1));
    }
}

#[test]
fn mobile_by_hand() {
    let (a, b) = (md5(1), md5(2));
    let spaces = format!("0.5 W 0 16 9 Binder_1 {a}-{b}\n1.5 W 16 24 9 a b {a}-{b}-{a}\n1.6 R 0 8 9 x {a}\n1.7 W 40 1 9 x {b}\n");
    let mut tabs = String::new();
    for line in spaces.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [time, op, first, count, pid, process @ .., md5s] = &words[..] else { panic!("{line}") };
        writeln!(tabs, "{time} \t{op}\t{first:>12}\t{count:>10}\t{pid:>10}\t{:>15}\t{md5s}", process.join(" ")).unwrap();
    }
    for plan in every_plan() {
        let reports = [&spaces, &tabs].map(|text| {
            let (report, info) = there_and_back(FormName::Mobile, text, &plan);
            let f = &report.whole;
            assert_eq!((f.client_units, f.client_writes, f.client_reads), (6, 3, 1), "{}", plan.scheme.name());
            assert_eq!((f.duplication.shares.live, info.total.duplicates_live), (3.0 / 6.0, 3));
            report
        });
        assert_eq!(reports[0], reports[1], "the layout of the text");
    }
}

/// Generates lines of the form: requests of whole blocks if `whole`, otherwise of 1 to 40 sectors anywhere; about a third of the contents
/// recur.
fn sample(form: FormName, whole: bool, seed: u64) -> String {
    let mut rng = Rng::with_seed(seed);
    let (mut text, mut time) = (String::new(), 1_000_000u64);
    let (each, zero) = if form == FormName::FiuHomes { (1, ZERO_SECTOR) } else { (8, ZERO_BLOCK) };
    for _ in 0..1500 {
        time += rng.u64(0..3_000_000);
        let (first, count) =
            if whole { (rng.u64(0..BLOCKS - 8) * 8, rng.u64(1..6) * 8) } else { (rng.u64(0..(BLOCKS - 8) * 8), rng.u64(1..40)) };
        let mut names = Vec::new();
        for at in 0..count.div_ceil(each) {
            // Eight sectors in a row belong together, so that blocks recur.
            if at % (8 / each) == 0 || names.is_empty() {
                names.push((rng.u8(..), rng.u16(..)));
            } else {
                names.push(names[names.len() - 1]);
            }
        }
        let digest = |(kind, content): &(u8, u16)| match kind {
            0..20 => zero.to_owned(),
            20..110 => md5((content % 40) as u8),
            _ => format!("{content:04x}").repeat(8),
        };
        let digests: Vec<String> = names.iter().map(digest).collect();
        let op = if rng.u8(..) < 60 { 'R' } else { 'W' };
        text += &match form {
            FormName::Mobile => {
                format!("{}.{:09} {op} {first} {count} 7 app {}\n", time / 1_000_000_000, time % 1_000_000_000, digests.join("-"))
            }
            _ => format!("{time} 7 some thing {first} {count} {op} 8 0 {}\n", digests.concat()),
        };
    }
    text
}

#[test]
fn generated_samples_are_replayed_as_they_are_counted() {
    for (seed, form) in [FormName::Fiu, FormName::FiuHomes, FormName::Mobile].into_iter().enumerate() {
        for whole in [true, false] {
            let text = sample(form, whole, seed as u64);
            let lines = |op: &str| text.lines().filter(|line| line.contains(op)).count() as u64;
            for scheme in if whole { &Scheme::ALL[..] } else { &OURS[..] } {
                let scheme = *scheme;
                let (report, info) = there_and_back(form, &text, &Plan { scheme, ..on("instant") });
                let f = &report.whole;
                let what = format!("{form}, {}", scheme.name());
                assert_eq!(f.client_units, info.total.blocks_written, "{what}");
                assert_eq!((f.client_writes, f.client_reads), (lines(" W "), lines(" R ")), "{what}");
                if whole {
                    let counts = info.duplication.expect("blocks were written");
                    assert_eq!(
                        (f.duplication.shares.live, f.duplication.shares.ever, f.duplication.shares.zero),
                        (counts.live, counts.ever, counts.zero),
                        "{what}"
                    );
                    assert!(counts.live > 0.1 && counts.zero > 0.01, "{what}: {counts:?}");
                }
            }
        }
    }
}
