//! `onefold-sim codecs`: compares codecs for the slots of log units, by the units that real data take and by processor time (decision
//! 0072).

pub mod bound;
pub mod codec;
pub mod data;
pub mod timing;
pub mod units;

use crate::ground::words::above_zero;
use codec::{Block, Codec, KINDS, Kind};
use data::Data;
use std::path::Path;
use std::process::ExitCode;

/// The sizes of epochs that the data of each path are divided into.
const EPOCHS: [usize; 3] = [1, 4, 32];

/// Counts of one candidate for the blocks of one path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counts {
    pub kind: Kind,
    /// The share of blocks that fit into a carrier alone, with their record.
    pub alone: f64,
    /// The mean bytes of those blocks.
    pub mean_bytes: f64,
    /// The units a block in epochs of 1, 4 and 32 blocks.
    pub in_epochs: [f64; 3],
    /// The units a block when it is packed with its neighbours, by first fit and as runs.
    pub packed: f64,
    pub runs: f64,
    /// The units a block in the epochs that were recorded.
    pub recorded: Option<f64>,
}

/// Takes `count` sizes from the front.
fn take<'a>(sizes: &mut &'a [u16], count: usize) -> &'a [u16] {
    let (front, rest) = sizes.split_at(count);
    *sizes = rest;
    front
}

/// Counts these blocks for one candidate.
///
/// # Panics
/// Panics if there are no blocks, or a size is larger than a block.
#[must_use]
pub fn count(kind: Kind, data: &Data) -> Counts {
    let mut codec = Codec::new(kind);
    let sizes: Vec<u16> = data.blocks.iter().map(|block| u16::try_from(codec.compress(block)).expect("at most a block")).collect();
    let blocks = sizes.len() as f64;
    let fitting: Vec<f64> = sizes.iter().filter(|&&size| usize::from(size) <= units::ALONE_BYTES).map(|&size| f64::from(size)).collect();
    let a_block = |units: usize| units as f64 / blocks;
    let mut rest = sizes.as_slice();
    let recorded: usize = data.epochs.iter().map(|&length| units::of_epoch(take(&mut rest, length))).sum();
    Counts {
        kind,
        alone: fitting.len() as f64 / blocks,
        mean_bytes: fitting.iter().sum::<f64>() / fitting.len() as f64,
        in_epochs: EPOCHS.map(|length| a_block(sizes.chunks(length).map(units::of_epoch).sum())),
        packed: a_block(sizes.chunks(units::NEIGHBOURS).map(units::of_neighbours).sum()),
        runs: a_block(units::of_runs(&sizes)),
        recorded: (!data.epochs.is_empty()).then(|| a_block(recorded)),
    }
}

fn print_counts(data: &Data) {
    println!("\n{}: {} blocks, {} left out\n", data.name, data.blocks.len(), data.left_out);
    println!(
        "| codec | fit alone | mean bytes | epochs of 1 | of 4 | of 32 | packs of 16 | runs | as recorded |\n\
         |---|---|---|---|---|---|---|---|---|"
    );
    for counts in KINDS.map(|kind| count(kind, data)) {
        let Counts { kind, alone, mean_bytes, in_epochs: [one, four, many], packed, runs, recorded } = counts;
        let recorded = recorded.map_or("–".to_owned(), |units| format!("{units:.4}"));
        println!("| {kind} | {alone:.4} | {mean_bytes:.0} | {one:.4} | {four:.4} | {many:.4} | {packed:.4} | {runs:.4} | {recorded} |");
    }
}

/// Prints the times for equally many blocks of each path, first the blocks that LZ4 makes fit, then the others.
fn print_times(data: &[Data], blocks: usize, rounds: usize) {
    let mut codec = Codec::new(Kind::Lz4);
    let step = |path: &Data| (path.blocks.len() * data.len()).div_ceil(blocks);
    let some = data.iter().flat_map(|data| data.blocks.iter().step_by(step(data)).map(|block| &**block));
    let (fitting, others): (Vec<&Block>, Vec<&Block>) = some.partition(|block| codec.compress(block) <= units::ALONE_BYTES);
    println!("\n{} blocks that LZ4 makes fit, {} others, {rounds} rounds; ns a block, and to the first's\n", fitting.len(), others.len());
    println!("| codec | compress | | not fitting | | read | |\n|---|---|---|---|---|---|---|");
    let compress = timing::compressing(&KINDS, &fitting, rounds);
    let give_up = timing::compressing(&KINDS, &others, rounds);
    let read = timing::reading(&KINDS, &fitting, rounds);
    for (kind, ((compress, give_up), read)) in KINDS.iter().zip(compress.iter().zip(&give_up).zip(&read)) {
        println!("| {kind} | {compress} | {give_up} | {read} |");
    }
}

/// Fails if a path cannot be read or has no blocks, or an option is unknown.
pub fn command(words: &[String]) -> Result<ExitCode, String> {
    let (mut paths, mut blocks, mut timed, mut rounds) = (Vec::new(), usize::MAX, 4096, 9);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut number = || above_zero(word, words.next());
        match word.as_str() {
            "--blocks" => blocks = number()?,
            "--timed" => timed = number()?,
            "--rounds" => rounds = number()?,
            option if option.starts_with('-') => {
                return Err(format!("codecs has no option {option}; it has --blocks N, --timed N, --rounds N"));
            }
            path => paths.push(path),
        }
    }
    if paths.is_empty() {
        return Err("codecs needs files, folders or recorded syncs (*.epochs)".to_owned());
    }
    let mut all = Vec::new();
    for path in paths {
        let data = Data::read(Path::new(path), blocks).map_err(|error| format!("{path}: {error}"))?;
        if data.blocks.is_empty() {
            return Err(format!("{path} has no blocks that would be compressed"));
        }
        print_counts(&data);
        all.push(data);
    }
    print_times(&all, timed, rounds);
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_engine::units::BLOCK_SIZE;

    /// Makes alternating blocks of text and of noise, each with a different number in it.
    fn data(blocks: u8) -> Data {
        let mut data = Data::default();
        for number in 1..=blocks {
            let mut block = Box::new([number; BLOCK_SIZE]);
            if number % 2 == 0 {
                fastrand::Rng::with_seed(number.into()).fill(&mut block[..]);
            }
            data.blocks.push(block);
        }
        data
    }

    #[test]
    fn counts_are_those_of_the_blocks() {
        let mut with_epochs = data(8);
        with_epochs.epochs = vec![3, 5];
        for kind in KINDS {
            let counts = count(kind, &with_epochs);
            assert!((counts.alone - 0.5).abs() < 1e-9 && counts.mean_bytes < 60.0, "{counts:?}");
            assert_eq!(counts.in_epochs, [1.5, 0.75, 0.625], "{kind}");
            assert_eq!((counts.packed, counts.runs, counts.recorded), (0.625, 1.0, Some(0.75)), "{kind}");
        }
    }

    #[test]
    fn paths_and_numbers_are_asked_for() {
        let words = |words: &[&str]| command(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        assert!(words(&[]).is_err() && words(&["--blocks", "0", "/dev/null"]).is_err() && words(&["--level", "1"]).is_err());
        assert_eq!(words(&["/dev/null"]), Err("/dev/null has no blocks that would be compressed".to_owned()));
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        std::fs::write(&path, data(8).blocks.iter().flat_map(|block| **block).collect::<Vec<_>>()).expect("a file");
        assert!(words(&["--rounds", "1", path.to_str().expect("a name")]).is_ok());
    }
}
