//! `onefold-sim bound`: the least space that the distinct blocks of a stream take (`replay/bound.rs`), each at the size to which the
//! engine's own compressor brings it.

use super::codec::{Block, Codec, Kind};
use crate::laboratory::replay::bound::Bound;
use onefold_engine::units::BLOCK_SIZE;
use rustc_hash::FxHashSet;
use std::io::{self, Read};
use std::process::ExitCode;
use twox_hash::XxHash3_64;

/// Counts of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    pub blocks: u64,
    pub zeroes: u64,
    pub unique: u64,
    /// The units that the unique blocks fill.
    pub units: u64,
}

/// Counts whole blocks up to the end of the stream.
///
/// # Errors
/// Fails if it cannot be read, or ends within a block.
///
/// # Panics
/// Panics if there is no memory for a compressor.
pub fn count(input: &mut impl Read) -> io::Result<Counted> {
    let mut codec = Codec::new(Kind::Zstd(1));
    let (mut bound, mut seen) = (Bound::new(None), FxHashSet::default());
    let mut counted = Counted { blocks: 0, zeroes: 0, unique: 0, units: 0 };
    let mut block: Block = [0; BLOCK_SIZE];
    loop {
        match input.read(&mut block[..1])? {
            0 => break,
            _ => input.read_exact(&mut block[1..])?,
        }
        counted.blocks += 1;
        if block == [0; BLOCK_SIZE] {
            counted.zeroes += 1;
        } else if seen.insert(XxHash3_64::oneshot(&block)) {
            counted.unique += 1;
            bound.new_block(u16::try_from(codec.compress(&block)).ok());
        }
    }
    counted.units = bound.total().0;
    Ok(counted)
}

/// # Errors
/// Fails if the input cannot be read or ends within a block, or if there are arguments.
pub fn command(words: &[String]) -> Result<ExitCode, String> {
    if !words.is_empty() {
        return Err("bound takes no options: it reads blocks of 4096 bytes from its input".to_owned());
    }
    let Counted { blocks, zeroes, unique, units } = count(&mut io::stdin().lock()).map_err(|error| format!("its input: {error}"))?;
    println!("{}", serde_json::json!({ "blocks": blocks, "zeroes": zeroes, "unique": unique, "units": units }));
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinct_blocks_are_packed_and_each_counts_once() {
        let mut noise = [0; BLOCK_SIZE];
        fastrand::Rng::with_seed(1).fill(&mut noise);
        let bytes = [[7; BLOCK_SIZE], [0; BLOCK_SIZE], noise, [8; BLOCK_SIZE], [7; BLOCK_SIZE]].concat();
        let counted = count(&mut &bytes[..]).expect("they are whole blocks");
        assert_eq!(counted, Counted { blocks: 5, zeroes: 1, unique: 3, units: 2 });
        assert!(count(&mut &bytes[1..]).is_err(), "it ends within a block");
        assert!(command(&["--help".to_owned()]).is_err());
    }
}
