//! The composition of explored lives, as `docs/testing.md` documents it: each setting, and each operation, with the values that occur in
//! some life.

use fastrand::Rng;
use onefold_engine::format::CommitMode;
use onefold_engine::interface::Op;
use onefold_engine::settings::Settings;
use onefold_sim::explorer::kind::Kind;
use onefold_sim::explorer::options::{Mix, Modes, Options};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

const DRAWS: u64 = 4000;
/// The number of values above which only the smallest and the largest are listed.
const VALUES_MAX: usize = 8;

/// Settings that have the same value in every life, and the reason why that is enough.
const ONE_VALUE: [(&str, &str); 4] = [
    ("anticipates_by_shares", "only `onefold-lab replay` turns it off; a shorter wait is no other order"),
    ("carrier_slots_max", "only `onefold-sim codecs` uses fewer; lives fill carriers with as many as fit"),
    ("journal_lost", "true if the acknowledgement journal of the last life was lost (`sim/src/explorer/life.rs`)"),
    ("read_only", "true in read-only openings between two lives (`sim/src/explorer/life.rs`)"),
];

/// Lists the fields of some settings, in their order, with the shown value of each. Those of the parts follow in one list.
fn fields(settings: &Settings) -> Vec<(String, String)> {
    let shown = format!("{settings:#?}");
    let is_part = |line: &&str| line.ends_with('{') || line.ends_with('}') || line.ends_with("},");
    let (parts, lines): (Vec<&str>, Vec<&str>) = shown.lines().partition(is_part);
    let field = |line: &str| line.trim_start().strip_suffix(',')?.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
    let fields: Vec<_> = lines.iter().filter_map(|line| field(line)).collect();
    assert_eq!((fields.len(), parts.len()), (lines.len(), 2 * 3), "each setting is one line: {shown}");
    fields
}

/// Returns the weight of an operation in a mix, excluding parts of blocks.
const fn weight(mix: &Mix, op: Op) -> u32 {
    match op {
        Op::Read => mix.read,
        Op::Write => mix.write + mix.part,
        Op::Flush => mix.flush,
        Op::Discard => mix.discard,
        Op::WriteZeroes => mix.zeroes,
        // It takes the place of a read.
        Op::Extents => 0,
    }
}

fn drawn() -> Vec<(Kind, Options)> {
    let modes = [Modes::One(CommitMode::Ordered), Modes::One(CommitMode::Log), Modes::Any];
    modes.into_iter().flat_map(|modes| (0..DRAWS).map(move |seed| Kind::draw(modes, &mut Rng::with_seed(seed)))).collect()
}

fn listed(values: &BTreeSet<(u64, String)>) -> String {
    let names: Vec<&str> = values.iter().map(|(_, value)| value.as_str()).collect();
    match names[..] {
        [first, .., last] if names.len() > VALUES_MAX => format!("{first} to {last}"),
        _ => names.join(", "),
    }
}

/// Returns the table, and a list of what is wrong with it.
fn table() -> (String, Vec<String>) {
    let drawn = drawn();
    let mut seen: BTreeMap<String, BTreeSet<(u64, String)>> = BTreeMap::new();
    for (name, value) in drawn.iter().flat_map(|(_, options)| fields(&options.settings)) {
        // Numbers are sorted by value.
        seen.entry(name).or_default().insert((value.parse().unwrap_or_default(), value));
    }
    let (mut table, mut wrong) = ("| setting | default of the engine | in explored lives |\n|---|---|---|\n".to_owned(), Vec::new());
    for (name, default) in fields(&Settings::default()) {
        let values = &seen[&name];
        let why = ONE_VALUE.iter().find(|(setting, _)| *setting == name).map(|(_, why)| *why);
        match (values.len(), why) {
            (1, None) => wrong.push(format!("{name} is the same in every life, without a reason")),
            (2.., Some(_)) => wrong.push(format!("{name} differs between lives: it is not an exception any more")),
            _ => {}
        }
        let because = why.map(|why| format!("; {why}")).unwrap_or_default();
        writeln!(table, "| `{name}` | {default} | {}{because} |", listed(values)).unwrap();
    }
    table.push_str("\n| operation | its share of requests in kinds of runs that have it, in hundredths |\n|---|---|\n");
    for op in [Op::Read, Op::Write, Op::Flush, Op::Discard, Op::WriteZeroes] {
        let mut shares: Vec<String> = Vec::new();
        for kind in Kind::ALL {
            let of_kind = drawn.iter().filter(|(of, _)| *of == kind).map(|(_, options)| &options.mix);
            let (mine, all) = of_kind.fold((0, 0), |(mine, all), mix| {
                let total = mix.write + mix.part + mix.read + mix.flush + mix.discard + mix.zeroes;
                (mine + u64::from(weight(mix, op)) * 10_000 / u64::from(total), all + 1)
            });
            if mine > 0 {
                shares.push(format!("{} {}", kind.name(), (mine / all).div_ceil(100)));
            }
        }
        if shares.is_empty() {
            wrong.push(format!("no life has {op:?}"));
        }
        writeln!(table, "| {op:?} | {} |", shares.join(", ")).unwrap();
    }
    (table, wrong)
}

#[test]
fn each_setting_and_operation_is_explored_and_testing_md_says_how() {
    let (table, wrong) = table();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/testing.md")).expect("the page is there");
    let (_, rest) = page.split_once("<!-- lives -->\n").expect("the page has the table's place");
    let (found, _) = rest.split_once("<!-- end of lives -->").expect("and its end");
    assert!(found.trim() == table.trim(), "docs/testing.md should say:\n{table}");
}
