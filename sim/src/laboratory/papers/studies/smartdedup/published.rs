//! The published numbers of SmartDedup (Yang, Jin and Zhao, USENIX ATC '19). Its figures are pictures, of which only the numbers in the
//! text are given.

use crate::laboratory::papers::drawing::html::Table;

/// A statement of the paper.
#[derive(Clone, Copy, Debug)]
pub struct Statement {
    pub figure: &'static str,
    pub says: &'static str,
}

/// Makes a statement.
#[must_use]
pub const fn says(figure: &'static str, says: &'static str) -> Statement {
    Statement { figure, says }
}

/// Formats published statements as a table.
#[must_use]
pub fn statements(all: &[Statement]) -> String {
    let mut table = Table::new("Published", ["figure", "statement"]);
    all.iter().for_each(|statement| table.row([statement.figure, statement.says]));
    table.html()
}

/// The changes of throughput of writes and reads with 25 % duplicates (section 4.1).
pub const QUARTER: (f64, f64) = (0.169, 0.382);
/// The changes of the 95th percentile of writes and reads with 25 % duplicates (section 4.1).
pub const PERCENTILES: (f64, f64) = (-0.185, -0.187);
/// The increases of processor time on EXT4, for each mix (section 4.1).
pub const PROCESSOR: [(u8, f64); 2] = [(1, 0.033), (2, 0.017)];
/// DEDISbench with most duplicates: changes of throughput of writes and reads, space saved, units saved (section 4.3).
pub const MOST_DUPLICATES: (f64, f64, f64, f64) = (0.544, 0.336, 0.45, 0.416);

/// The statements about writes and reads by fio (section 4.1).
pub const FIO: [Statement; 6] = [
    says("3a", "no duplicates: throughput −3.8 % against EXT4, Dmdedup −62.8 %, CAFTL 1.4 points better than SmartDedup"),
    says("3b", "no duplicates: 95th percentile +1.1 %, Dmdedup 1.1 × more"),
    says("3a", "25 % duplicates: +16.9 %, Dmdedup −52.8 %, CAFTL +3.1 %"),
    says("3b", "25 % duplicates: 95th percentile −18.5 %, Dmdedup +90.2 %, CAFTL −6.5 %"),
    says("3c", "reads without duplicates −0.6 %; with many up to 13.4 ×; CAFTL up to −23 %"),
    says("3d", "reads: median +2.7 % without duplicates; 95th percentile up to −93 %; CAFTL up to +64.1 %"),
];

/// The statements about its rivals with 25 % duplicates (section 4.1).
pub const RIVALS: [Statement; 3] = [
    says(
        "3a",
        "25 % duplicates, writes: SmartDedup +16.9 %, Dmdedup −52.8 %, CAFTL +3.1 %; CAFTL without pre-hashing 6.7 % slower than it",
    ),
    says("3b", "25 % duplicates, 95th percentile of writes: SmartDedup −18.5 %, Dmdedup +90.2 %, CAFTL −6.5 %"),
    says("3c", "reads: Dmdedup and CAFTL are slower than EXT4, CAFTL by up to 23 %"),
];

/// The statements about processor and memory (section 4.1).
pub const MIXES: [Statement; 3] = [
    says("5, Mix 1", "4 GB, half of it reads, 25 % duplicates: processor +3.3 % (EXT4), +2.2 % (F2FS)"),
    says("5, Mix 2", "6 GB, two thirds reads, 25 % duplicates: processor +1.7 % (EXT4), +5.5 % (F2FS)"),
    says("5", "memory: 3.5 MB; battery +4 % and −7.7 % (EXT4), −21.2 % and −49.2 % (F2FS)"),
];

/// The statements about replayed traces (section 4.2).
pub const REPLAYS: [Statement; 2] = [
    says("6", "up to 51.1 % faster and 70.9 % fewer writes, with little space saved, as the segments overwrite"),
    says("6", "CAFTL: up to 13.4 % faster, 38.7 % fewer writes"),
];

/// The statements about policies (section 4.2).
pub const POLICIES: [Statement; 5] = [
    says("8", "G-LRU finds at most 3 % fewer duplicates than LRU, and saves 87 % of the I/O for the index"),
    says("8", "41.8 % more duplicates than CAFTL without pre-hashing"),
    says("8", "up to 35.7 % more duplicates than Dmdedup, from 1 MB to 40 MB"),
    says("8", "work out of line: 6.7 to 12.1 % of the writes (Trace 1, 1 MB)"),
    says("8", "work out of line: 36.7 to 43.1 % of the writes (Trace 2)"),
];

/// The statements about DEDISbench (section 4.3).
pub const DEDISBENCH: [Statement; 2] = [
    says("9", "images with 46.1 % and 19.4 % duplicates: writes up to 54.4 % faster, reads up to 33.6 %"),
    says("9", "up to 45.0 % of the space and 41.6 % of the writes saved"),
];

/// The statements about adapting and about runs (sections 4.4 and 4.5).
pub const ADAPTING: [Statement; 2] = [
    says("10", "by duplication: power overhead down by up to 14 % at the cost of 8 % of the deduplication ratio"),
    says("11", "by battery, full to 20 %: power overhead 8 to 0.3 %, deduplication ratio 51 to 32 %"),
];
pub const RUNS: [Statement; 1] =
    [says("12", "runs of at least 4 (Trace 6): extents 1.5 × to 1.06 × of EXT4's, deduplication ratio −6.0 %")];

/// The types of files that contribute most duplicates (Table 2): for each trace, the type, its share of the writes, and the share of
/// duplicates in it, in per cent.
pub const CONTRIBUTORS: [[(&str, u8, u8); 3]; 6] = [
    [("resources", 12, 15), ("databases", 10, 15), ("executables", 39, 13)],
    [("temporary", 3, 73), ("executables", 36, 65), ("resources", 27, 62)],
    [("resources", 17, 65), ("media", 3, 19), ("databases", 11, 17)],
    [("executables", 29, 78), ("temporary", 4, 77), ("media", 24, 49)],
    [("media", 76, 48), ("resources", 2, 34), ("executables", 12, 25)],
    [("resources", 19, 45), ("executables", 35, 36), ("media", 9, 31)],
];
