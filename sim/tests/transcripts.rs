//! A sample of the transcripts on each run of the tests; `./dev transcripts` takes all.

use onefold_sim::transcripts::{Options, compare};
use std::path::Path;

fn options() -> Options {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    Options { table: here.join("transcripts.tsv"), traces: here.join("../data/traces"), ..Options::default() }
}

#[test]
fn a_sample_is_as_recorded() {
    let compared = compare(&Options { sample: 25, ..options() }).expect("the table is there");
    assert!(compared.wrong.is_empty(), "{:#?}\n`./dev transcripts` tells more", compared.wrong);
    assert!(compared.equal > 40, "{compared:?}");
}

#[test]
fn one_that_differs_or_is_not_there_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let table = directory.path().join("table");
    let known = std::fs::read_to_string(options().table).expect("the table is there");
    let name = "figure1/new_write_duplicate";
    let line = known.lines().find(|line| line.starts_with(name)).expect("it has a transcript");
    let compared = |text: &str| {
        std::fs::write(&table, text).expect("a file");
        compare(&Options { table: table.clone(), only: vec![name.to_owned()], ..options() }).expect("the table is there")
    };
    assert_eq!(compared(line).equal, 1);
    let (before, _) = line.rsplit_once('\t').expect("three columns");
    let wrong = compared(&format!("{before}\t0000000000000000")).wrong;
    assert!(wrong.len() == 1 && wrong[0].starts_with(name) && wrong[0].ends_with("0000000000000000 is recorded"), "{wrong:?}");
    assert!(compared("").wrong[0].contains("is not in"));
}

#[test]
fn a_name_of_nothing_and_a_record_of_some_are_refused() {
    let refused = |options: Options| compare(&options).expect_err("it makes no sense");
    assert!(refused(Options { only: vec!["lives".to_owned()], ..options() }).contains("begins with lives"));
    assert!(refused(Options { record: true, sample: 2, ..options() }).contains("--record takes all"));
}
