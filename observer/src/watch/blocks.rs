//! Blocks of content, put together from pieces.

use crate::BLOCK_BYTES;
use crate::piece::{BioName, Piece};

/// The length of a block in memory.
const BLOCK: usize = 4096;
/// The most blocks of which a part is there. A bio has one at a time.
const PARTS_MAX: usize = 64;

/// A block of which only the beginning is there.
struct Part {
    bio: BioName,
    at: u64,
    filled: usize,
    content: Box<[u8; BLOCK]>,
}

/// The blocks that are being put together.
#[derive(Default)]
pub(super) struct Blocks {
    parts: Vec<Part>,
}

impl Blocks {
    /// Takes a piece, and passes on its block, with its place, if that is whole now.
    pub fn add(&mut self, piece: &Piece<'_>, mut each: impl FnMut(u64, &[u8; BLOCK])) {
        if let Ok(whole) = piece.content.try_into() {
            each(piece.at, whole);
            return;
        }
        let at = piece.at - piece.at % BLOCK_BYTES;
        let within = usize::try_from(piece.at - at).expect("within a block");
        let known = self.parts.iter().position(|part| part.bio == piece.bio && part.at == at && part.filled == within);
        let index = match known {
            Some(index) => index,
            // Its beginning was lost, or is not of this bio: no block comes of it.
            None if within > 0 => return,
            None => {
                if self.parts.len() == PARTS_MAX {
                    self.parts.remove(0);
                }
                self.parts.push(Part { bio: piece.bio, at, filled: 0, content: Box::new([0; BLOCK]) });
                self.parts.len() - 1
            }
        };
        let part = &mut self.parts[index];
        part.content[within..within + piece.content.len()].copy_from_slice(piece.content);
        part.filled += piece.content.len();
        if part.filled == BLOCK {
            let part = self.parts.swap_remove(index);
            each(part.at, &part.content);
        }
    }

    /// Forgets what is not whole of a bio that ends.
    pub fn end(&mut self, bio: BioName) {
        self.parts.retain(|part| part.bio != bio);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIO: BioName = BioName { time: 1, processor: 0 };

    /// Adds pieces of these places and lengths, and returns the blocks that came of them. A byte of content is its place in a block.
    fn blocks_of(blocks: &mut Blocks, pieces: &[(BioName, u64, usize)]) -> Vec<u64> {
        let mut whole = Vec::new();
        for &(bio, at, length) in pieces {
            let content: Vec<u8> = (at..).take(length).map(|at| (at / 512).to_le_bytes()[0] % 8).collect();
            blocks.add(&Piece { bio, at, content: &content }, |at, content| {
                assert!(content.iter().zip(0_u64..).all(|(byte, place)| u64::from(*byte) == place / 512), "the block at {at}");
                whole.push(at);
            });
        }
        whole
    }

    #[test]
    fn pieces_become_blocks() {
        let other = BioName { time: 1, processor: 1 };
        let pieces = [(BIO, 0, 512), (other, 0, 2048), (BIO, 512, 3584), (BIO, 4096, 4096), (other, 2048, 2048), (BIO, 8192, 512)];
        let mut blocks = Blocks::default();
        assert_eq!(blocks_of(&mut blocks, &pieces), [0, 4096, 0]);
        blocks.end(BIO);
        assert_eq!(blocks_of(&mut blocks, &[(BIO, 8704, 3584)]), [0_u64; 0], "its beginning belonged to a bio that has ended");
    }

    #[test]
    fn a_block_with_a_gap_is_none() {
        assert_eq!(blocks_of(&mut Blocks::default(), &[(BIO, 0, 512), (BIO, 1024, 3072), (BIO, 4608, 3584)]), [0_u64; 0]);
    }
}
