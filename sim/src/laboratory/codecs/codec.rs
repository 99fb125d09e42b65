//! The candidates. Each compresses a block and decompresses it again, in memory that it keeps.

use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};
use onefold_engine::format::codec;
use onefold_engine::units::BLOCK_SIZE;
use std::fmt;
use zstd::bulk::{Compressor, Decompressor};

/// A block of a client.
pub type Block = [u8; BLOCK_SIZE];

/// The bytes that begin every zstd frame of 4 KiB: magic number, descriptor, size of the content. No slot would store them.
const ZSTD_HEADER_BYTES: usize = 7;
/// The header of the frame and that of its one block.
#[cfg(test)]
const ZSTD_FRAME_BYTES: usize = 10;

/// A way to compress a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The engine's way, including its quick exit, with this limit of the result in bytes.
    Engine(usize),
    Lz4,
    /// LZ4, unless the given number of bytes at the beginning does not save the given number of bytes.
    Lz4Try(usize, usize),
    Zstd(i32),
}

/// All candidates; the others' times are divided by those of the first.
pub const KINDS: [Kind; 13] = [
    Kind::Lz4,
    Kind::Lz4Try(512, 1),
    Kind::Lz4Try(1024, 1),
    Kind::Lz4Try(2048, 1),
    Kind::Engine(super::units::ALONE_BYTES),
    Kind::Zstd(-7),
    Kind::Zstd(-5),
    Kind::Zstd(-3),
    Kind::Zstd(-2),
    Kind::Zstd(-1),
    Kind::Zstd(1),
    Kind::Zstd(2),
    Kind::Zstd(3),
];

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(_) => write!(f, "the engine's"),
            Self::Lz4 => write!(f, "lz4"),
            Self::Lz4Try(bytes, less) => write!(f, "lz4, first {bytes} less {less}"),
            Self::Zstd(level) => write!(f, "zstd {level}"),
        }
    }
}

/// A candidate with its state.
pub struct Codec {
    kind: Kind,
    table: CompressTable,
    zstd: Option<(Compressor<'static>, Decompressor<'static>)>,
    out: Box<[u8]>,
    bytes: usize,
}

impl Codec {
    /// Panics if zstd finds no memory.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        let zstd = match kind {
            Kind::Zstd(level) => Some((Compressor::new(level).expect("memory"), Decompressor::new().expect("memory"))),
            _ => None,
        };
        let most = get_maximum_output_size(BLOCK_SIZE).max(zstd::zstd_safe::compress_bound(BLOCK_SIZE));
        Self { kind, table: CompressTable::small(), zstd, out: vec![0; most].into_boxed_slice(), bytes: 0 }
    }

    fn lz4(&mut self, bytes: &[u8]) -> usize {
        compress_into_with_table(bytes, &mut self.out, &mut self.table).expect("there is room for the worst")
    }

    /// Compresses a block and returns the size that counts: [`BLOCK_SIZE`] if the codec gave up or the result is no smaller.
    ///
    /// # Panics
    /// Never panics: there is room for the largest result.
    pub fn compress(&mut self, block: &Block) -> usize {
        let kind = self.kind;
        let counted = match kind {
            Kind::Engine(most) => {
                match Some(block).filter(|block| !codec::looks_random(block)).and_then(|block| codec::compress(block, most)) {
                    Some(data) => {
                        self.out[..data.len()].copy_from_slice(&data);
                        self.bytes = data.len();
                        data.len()
                    }
                    None => BLOCK_SIZE,
                }
            }
            Kind::Lz4Try(first, less) if self.lz4(&block[..first]) + less > first => BLOCK_SIZE,
            Kind::Lz4 | Kind::Lz4Try(..) => {
                self.bytes = self.lz4(block);
                self.bytes
            }
            Kind::Zstd(_) => {
                let (compressor, _) = self.zstd.as_mut().expect("made with it");
                self.bytes = compressor.compress_to_buffer(block, &mut self.out[..]).expect("there is room for the worst");
                self.bytes - ZSTD_HEADER_BYTES
            }
        };
        counted.min(BLOCK_SIZE)
    }

    /// Returns the result of [`Self::compress`], if the codec did not give up.
    #[must_use]
    pub fn compressed(&self) -> &[u8] {
        &self.out[..self.bytes]
    }

    /// Decompresses a block into `out`, and returns whether the bytes were valid.
    pub fn decompress(&mut self, data: &[u8], out: &mut Block) -> bool {
        match (self.kind, &mut self.zstd) {
            (Kind::Engine(_), _) => codec::decompress(data, out),
            (_, Some((_, zstd))) => zstd.decompress_to_buffer(data, &mut out[..]).is_ok_and(|bytes| bytes == BLOCK_SIZE),
            (_, None) => decompress_into(data, out).is_ok_and(|bytes| bytes == BLOCK_SIZE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a block with text at the beginning and noise at the end.
    fn half() -> Block {
        let mut block = [0; BLOCK_SIZE];
        fastrand::Rng::with_seed(5).fill(&mut block[2048..]);
        for (at, byte) in block[..2048].iter_mut().enumerate() {
            *byte = b"some text, again and again"[at % 26];
        }
        block
    }

    #[test]
    fn each_gives_the_block_back() {
        for kind in KINDS {
            let mut codec = Codec::new(kind);
            let bytes = codec.compress(&half());
            assert!((2040..2200).contains(&bytes), "{kind}: {bytes}");
            let (data, mut out) = (codec.compressed().to_vec(), [0; BLOCK_SIZE]);
            assert!(codec.decompress(&data, &mut out) && out == half(), "{kind}");
            assert!(!codec.decompress(&data[..data.len() - 1], &mut out), "{kind}");
        }
    }

    #[test]
    fn a_zstd_frame_counts_for_what_is_in_it() {
        let mut noise = [0; BLOCK_SIZE];
        fastrand::Rng::with_seed(6).fill(&mut noise);
        let mut codec = Codec::new(Kind::Zstd(1));
        assert_eq!((codec.compress(&noise), codec.compressed().len()), (BLOCK_SIZE, BLOCK_SIZE + ZSTD_FRAME_BYTES));
    }

    #[test]
    fn noise_in_front_makes_it_give_up() {
        let mut block = half();
        block.rotate_left(2048);
        assert_eq!(Codec::new(Kind::Lz4Try(1024, 1)).compress(&block), BLOCK_SIZE);
        assert!(Codec::new(Kind::Lz4).compress(&block) < 2200);
    }
}
