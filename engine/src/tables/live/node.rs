//! A node of the live records: a piece of an effect, in 4 to 13 words, or, with short names, 4 and one for each block.
//!
//! Word 0 holds the number of blocks, which of LBN, new and old block there are, the change of the fingerprint, and the epochs since the
//! chunk's. Word 1 holds the upper bytes of these three numbers, or a map entry that is no block. For each number that there is follow its
//! lower four bytes, and the link to the node before in its chain. Last comes the fingerprint entry of a new block, or the
//! short names of all its blocks.

use crate::format::entry::{FINGERPRINT_ENTRY_SIZE, FingerprintEntry, MapEntry, PBN_MAX};
use crate::format::page::Region;
use crate::tables::effect::{Effect, EntryChange};
use crate::units::{Epoch, Lbn, Pbn, index};
use std::array;

/// Words of a fingerprint entry.
const ENTRY_SIZE: usize = FINGERPRINT_ENTRY_SIZE / 4;
/// The most epochs between a chunk's and its nodes'.
pub(super) const EPOCHS_MAX: u64 = (1 << (u32::BITS - EPOCH_SHIFT)) - 1;

/// Bits of word 0 for the number of blocks; above them a bit for each number that there is, three for the name, the rest for the epoch.
const BLOCKS_BITS: u32 = 11;
const NAME_SHIFT: u32 = BLOCKS_BITS + 3;
const NAME_MASK: u32 = 7;
const EPOCH_SHIFT: u32 = NAME_SHIFT + 3;

// The change of the fingerprint.
const NO_NAME: u32 = 0;
const ENTRY: u32 = 1;
const SHORT_NAMES: u32 = 2;
const REMOVED: u32 = 3;
const COUNTED: u32 = 4;
const SHORT_NAMES_APART: u32 = 5;

// A map entry that is no block.
const UNMAPPED: u8 = 0;
const ZERO: u8 = 1;
const LOST: u8 = 2;

/// Bits of a new block's number below its slot.
const SLOT_SHIFT: u32 = 36;

const _: () = assert!(Region::Map.entries_per_page() < 1 << BLOCKS_BITS && EPOCHS_MAX == 0x7fff);
const _: () = assert!(PBN_MAX.get() < 1 << SLOT_SHIFT && FINGERPRINT_ENTRY_SIZE % 4 == 0);

/// The chains that link a node to older ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chain {
    /// The map page of its LBNs.
    Map,
    /// The granule of its new blocks, or of those whose fingerprint entry goes: so a granule's fingerprints are in one chain.
    New,
    /// The granule of its old blocks.
    Old,
}

impl Chain {
    pub const ALL: [Self; 3] = [Self::Map, Self::New, Self::Old];

    /// The key of a number. A granule is the blocks of one fingerprints page.
    fn key(self, number: u64) -> u32 {
        let page = match self {
            Self::Map => number / Region::Map.entries_per_page(),
            Self::New | Self::Old => block(number).get() / Region::Fingerprints.entries_per_page(),
        };
        u32::try_from(page).expect("2^40 LBNs and 2^36 PBNs have fewer than 2^32 pages")
    }
}

fn block(number: u64) -> Pbn {
    Pbn(number & ((1 << SLOT_SHIFT) - 1))
}

fn lower_word(number: u64) -> u32 {
    let [a, b, c, d, ..] = number.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// The byte above the lower word of a number of 40 bits.
fn upper_byte(number: u64) -> u8 {
    let [_, _, _, _, upper, ..] = number.to_le_bytes();
    upper
}

/// The numbers by which a piece is chained, as [`Chain::ALL`] has them.
fn numbers(piece: &Effect<'_>) -> [Option<u64>; 3] {
    let (lbn, old) = (piece.lbn.map(Lbn::get), piece.old.map(Pbn::get));
    match piece.to {
        _ if piece.name == EntryChange::Removed => [lbn, old, None],
        MapEntry::Block { pbn, slot } => [lbn, Some(pbn.get() | (u64::from(slot) << SLOT_SHIFT)), old],
        MapEntry::Unmapped | MapEntry::Zero | MapEntry::Lost => [lbn, None, old],
    }
}

/// The keys by which a piece of an effect is chained.
pub(super) fn keys(piece: &Effect<'_>) -> [Option<u32>; 3] {
    let numbers = numbers(piece);
    Chain::ALL.map(|chain| numbers[chain as usize].map(|number| chain.key(number)))
}

/// Words that a piece takes.
pub(super) fn size(piece: &Effect<'_>) -> usize {
    let name = match piece.name {
        EntryChange::Of(_) => ENTRY_SIZE,
        EntryChange::Short(shorts) | EntryChange::ShortApart(shorts) => shorts.len(),
        EntryChange::None | EntryChange::Removed | EntryChange::Counted => 0,
    };
    2 + 2 * numbers(piece).into_iter().flatten().count() + name
}

/// Appends the words of a piece.
pub(super) fn encode(piece: &Effect<'_>, epochs: u64, links: [u32; 3], words: &mut Vec<u32>) {
    let name = match piece.name {
        EntryChange::None => NO_NAME,
        EntryChange::Of(_) => ENTRY,
        EntryChange::Short(_) => SHORT_NAMES,
        EntryChange::ShortApart(_) => SHORT_NAMES_APART,
        EntryChange::Removed => REMOVED,
        EntryChange::Counted => COUNTED,
    };
    assert!(piece.blocks < 1 << BLOCKS_BITS, "{piece:?} is larger than a page");
    assert!(epochs <= EPOCHS_MAX, "{piece:?} is {epochs} epochs younger than its chunk");
    let mut head = lower_word(piece.blocks | (epochs << EPOCH_SHIFT)) | (name << NAME_SHIFT);

    let begin = words.len();
    words.extend([0; 2]);
    let to = match piece.to {
        MapEntry::Block { .. } | MapEntry::Unmapped => UNMAPPED,
        MapEntry::Zero => ZERO,
        MapEntry::Lost => LOST,
    };
    let mut uppers = [0, to, 0, 0];
    let numbers = numbers(piece);
    for chain in Chain::ALL {
        if let Some(number) = numbers[chain as usize] {
            head |= 1 << (BLOCKS_BITS + chain as u32);
            uppers[chain as usize] = upper_byte(number);
            words.extend([lower_word(number), links[chain as usize]]);
        }
    }
    words[begin..begin + 2].copy_from_slice(&[head, u32::from_le_bytes(uppers)]);
    match piece.name {
        EntryChange::Of(entry) => {
            let bytes = entry.encode();
            words.extend((0..ENTRY_SIZE).map(|word| u32::from_le_bytes(array::from_fn(|byte| bytes[4 * word + byte]))));
        }
        EntryChange::Short(shorts) | EntryChange::ShortApart(shorts) => words.extend_from_slice(shorts),
        EntryChange::None | EntryChange::Removed | EntryChange::Counted => {}
    }
}

/// A node, and what follows it in its chunk.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    words: &'a [u32],
    /// The epoch of the chunk.
    since: Epoch,
}

impl<'a> Node<'a> {
    pub fn new(words: &'a [u32], since: Epoch) -> Self {
        Self { words, since }
    }

    fn has(self, chain: Chain) -> bool {
        self.words[0] & (1 << (BLOCKS_BITS + chain as u32)) != 0
    }

    fn name_number(self) -> u32 {
        (self.words[0] >> NAME_SHIFT) & NAME_MASK
    }

    fn blocks(self) -> u64 {
        u64::from(self.words[0] & ((1 << BLOCKS_BITS) - 1))
    }

    /// The word at which its fingerprint entry or short names begin: behind the words of its chains.
    fn name_at(self) -> usize {
        2 + 2 * Chain::ALL.iter().filter(|&&c| self.has(c)).count()
    }

    /// Words before those of a chain.
    fn before(self, chain: Chain) -> usize {
        2 + 2 * Chain::ALL[..chain as usize].iter().filter(|&&c| self.has(c)).count()
    }

    fn number(self, chain: Chain) -> Option<u64> {
        let upper = self.words[1].to_le_bytes()[chain as usize];
        self.has(chain).then(|| (u64::from(upper) << u32::BITS) | u64::from(self.words[self.before(chain)]))
    }

    /// The key by which it is chained.
    pub fn key(self, chain: Chain) -> Option<u32> {
        self.number(chain).map(|number| chain.key(number))
    }

    /// The number of its word that links it to the node before in a chain that it is in.
    pub fn link_at(self, chain: Chain) -> usize {
        self.before(chain) + 1
    }

    /// Returns the link.
    pub fn link(self, chain: Chain) -> u32 {
        self.words[self.link_at(chain)]
    }

    pub fn epoch(self) -> Epoch {
        self.since + u64::from(self.words[0] >> EPOCH_SHIFT)
    }

    /// Its length.
    pub fn words(self) -> usize {
        let name = match self.name_number() {
            ENTRY => ENTRY_SIZE,
            SHORT_NAMES | SHORT_NAMES_APART => index(self.blocks()),
            _ => 0,
        };
        self.name_at() + name
    }

    fn name(self) -> EntryChange<'a> {
        let words = &self.words[self.name_at()..self.words()];
        match self.name_number() {
            ENTRY => {
                let mut bytes = [0; FINGERPRINT_ENTRY_SIZE];
                bytes.chunks_exact_mut(4).zip(words).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_le_bytes()));
                EntryChange::Of(FingerprintEntry::decode(&bytes).expect("the words of an entry are those of one that was encoded"))
            }
            SHORT_NAMES => EntryChange::Short(words),
            SHORT_NAMES_APART => EntryChange::ShortApart(words),
            REMOVED => EntryChange::Removed,
            COUNTED => EntryChange::Counted,
            _ => EntryChange::None,
        }
    }

    /// The piece that it was made of.
    pub fn effect(self) -> Effect<'a> {
        let name = self.name();
        let new = self.number(Chain::New);
        let (to, old) = match new {
            Some(number) if name == EntryChange::Removed => (MapEntry::Unmapped, Some(number)),
            Some(number) => {
                let slot = upper_byte(number) >> (SLOT_SHIFT - u32::BITS);
                (MapEntry::Block { pbn: block(number), slot }, self.number(Chain::Old))
            }
            None => {
                let to = match self.words[1].to_le_bytes()[Chain::New as usize] {
                    ZERO => MapEntry::Zero,
                    LOST => MapEntry::Lost,
                    _ => MapEntry::Unmapped,
                };
                (to, self.number(Chain::Old))
            }
        };
        Effect { lbn: self.number(Chain::Map).map(Lbn), blocks: self.blocks(), to, old: old.map(Pbn), name }
    }
}
