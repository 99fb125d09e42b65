//! Analyses of made traces, against counting that is slow and obvious.

use onefold_engine::units::{BLOCK_BYTES, Bytes};
use onefold_trace::analyze::{Analysis, By, MEMORY_BYTES_MIN};
use onefold_trace::header::Unit;
use onefold_trace::record::{Block, ContentName, NAME_BYTES_MAX, Op, Record};
use proptest::prelude::*;
use std::collections::HashSet;
use std::path::Path;

const APPLICATIONS: usize = 4;

/// The contents that each application writes, in order: 0 for zeros, 1 for unknown, otherwise a number.
type Written = [Vec<u8>; APPLICATIONS];

fn record(application: usize, time_ns: u64, contents: &[u8]) -> Record {
    let name = |content: &u8| match content {
        0 => ContentName::Zero,
        1 => ContentName::Unknown,
        number => ContentName::Of([*number; NAME_BYTES_MAX]),
    };
    let mut record = Record::new(time_ns, Op::Write, Bytes(0), Bytes(contents.len() as u64 * BLOCK_BYTES));
    record.process = Some(format!("app{application}").into());
    record.blocks = contents.iter().map(|content| Block::named(name(content))).collect();
    record
}

fn part(some: usize, all: usize) -> Option<f64> {
    #[allow(clippy::cast_precision_loss)] // small numbers
    (all > 0).then(|| some as f64 / all as f64)
}

/// The share of the row's chunks whose content the column wrote; on the diagonal, of those that are not the first of their content.
fn cell(written: &Written, row: usize, column: usize, with_zeros: bool) -> Option<f64> {
    let counts = |content: u8| content > 1 || (content == 0 && with_zeros);
    let mut seen = HashSet::new();
    let of_column: HashSet<u8> = written[column].iter().copied().collect();
    let is_common = |content: &&u8| if row == column { !seen.insert(**content) } else { of_column.contains(*content) };
    part(written[row].iter().filter(|content| counts(**content)).filter(is_common).count(), written[row].len())
}

proptest! {
    #[test]
    fn tables_are_those_of_slow_counting(requests in prop::collection::vec((0..APPLICATIONS, prop::collection::vec(0..9u8, 1..6)), 0..60)) {
        let mut analysis = Analysis::new(By::Process, MEMORY_BYTES_MIN, Path::new("/")).expect("there is memory");
        analysis.begin("all");
        let mut written = Written::default();
        for (number, (application, contents)) in requests.iter().enumerate() {
            analysis.count(&record(*application, number as u64, contents), Unit::Block).expect("it counts");
            written[*application].extend(contents);
        }
        let tables = analysis.finish(APPLICATIONS).expect("it counts");
        let numbers: Vec<usize> = tables.applications.iter().map(|row| row.name[3..].parse().expect("its number")).collect();
        prop_assert_eq!(numbers.len(), written.iter().filter(|contents| !contents.is_empty()).count());
        for (row, number) in numbers.iter().enumerate() {
            for (column, other) in numbers.iter().enumerate() {
                prop_assert_eq!(tables.sharing.cells[row][column], cell(&written, *number, *other, true));
                prop_assert_eq!(tables.sharing_without_zeros.cells[row][column], cell(&written, *number, *other, false));
            }
        }
        let chunks = written.iter().map(Vec::len).sum();
        let known = |contents: &[u8]| contents.iter().copied().filter(|content| *content > 1).collect::<Vec<u8>>();
        let again = |contents: &[u8]| known(contents).len() - known(contents).into_iter().collect::<HashSet<u8>>().len();
        prop_assert_eq!(tables.found.by_one_index, part(again(&written.concat()), chunks));
        prop_assert_eq!(tables.found.by_one_each, part(written.iter().map(|contents| again(contents)).sum(), chunks));
    }
}
