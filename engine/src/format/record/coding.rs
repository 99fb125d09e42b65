//! The bytes of records (`docs/format.md`, "Records").

use super::{EXTENT_PART_BLOCKS_MAX, OldRun, Record};
use crate::format::entry::{FingerprintEntry, Kind, MapEntry, SHORT_NAME_SIZE};
use crate::format::varint::{beyond, difference, put, take};
use crate::units::{Lbn, Pbn, index};

// Kind numbers: the lower four bits of a record's first byte. 0 is never a record, so that no padding reads as one. 13 and 14 are kept for
// settings, and a link to a slot of the very unit.
const NEW: u8 = 1;
const LINK: u8 = 2;
const LINK_ZERO: u8 = 3;
const LINK_UNMAPPED: u8 = 4;
const EXTENT: u8 = 5;
const CLEAR_ZERO: u8 = 6;
const CLEAR_UNMAPPED: u8 = 7;
const REMOVED: u8 = 8;
const CLOSING: u8 = 9;
const NEW_LINK: u8 = 10;
const CARRIER: u8 = 11;
const LATER: u8 = 12;
const NEW_RUN: u8 = 15;

/// The upper four bits of a record's first byte: the slot of a link, to a known or to a new block; 1 where a closing record names a
/// block, and where the blocks of a run stay apart.
const UPPER_SHIFT: u32 = 4;
/// The lowest bit of a part's first number: another part follows.
const PART_FOLLOWS: u8 = 1;

/// Encodes or decodes the records of one unit, in order.
#[derive(Clone, Copy, Default)]
pub(in crate::format) struct Coder {
    /// The numbers from which LBNs, new blocks, old blocks and, in one closing record, lost blocks count.
    lbn: u64,
    pbn: u64,
    old: u64,
    lost: u64,
}

impl Coder {
    /// Appends a record, or as many parts of a run as `room` bytes hold. Returns how many parts that was (0 of a record that is no run);
    /// none where nothing fits, and nothing was appended.
    ///
    /// # Panics
    /// When the record is not sound (invariant 2).
    pub fn encode(&mut self, record: &Record, room: usize, out: &mut Vec<u8>) -> Option<usize> {
        assert!(record.is_sound(), "no record: {record:?}");
        let (before, begin) = (*self, out.len());
        let limit = begin + room;
        let parts = self.put_record(record, limit, out);
        if parts.is_none() || out.len() > limit {
            *self = before;
            out.truncate(begin);
            return None;
        }
        parts
    }

    /// Appends a record whatever its length, or the parts of a run up to a length of `limit`. Returns what [`Self::encode`] does.
    fn put_record(&mut self, record: &Record, limit: usize, out: &mut Vec<u8>) -> Option<usize> {
        match record {
            Record::New { lbn, pbn, old, name } => {
                out.push(NEW);
                self.put_lbn(*lbn, 1, out);
                self.put_pbn(*pbn, 1, out);
                self.put_old(*old, 1, out);
                out.extend_from_slice(&name.encode());
                Some(0)
            }
            Record::Link { lbn, to, old } => self.put_link(LINK, *lbn, *to, *old, out),
            Record::NewLink { lbn, to, old } => self.put_link(NEW_LINK, *lbn, *to, *old, out),
            Record::Extent { lbn, pbn, olds, shorts, is_apart } => {
                out.push(EXTENT | (u8::from(*is_apart) << UPPER_SHIFT));
                self.put_extent((*lbn, *pbn), olds, shorts, limit, out)
            }
            Record::NewRun { lbn, pbn, olds } => {
                out.push(NEW_RUN);
                self.put_run(*lbn, *pbn, out, |coder, out| coder.put_parts(olds.iter().copied(), limit, out, Self::put_old_run))
            }
            Record::Clear { lbn, to, olds } => {
                out.push(if *to == MapEntry::Zero { CLEAR_ZERO } else { CLEAR_UNMAPPED });
                self.put_lbn(*lbn, 0, out);
                self.put_parts(olds.iter().copied(), limit, out, Self::put_old_run)
            }
            Record::Removed { pbn, blocks } => {
                out.push(REMOVED);
                put(out, difference(self.old, pbn.get()));
                put(out, *blocks);
                self.old = pbn.get() + blocks;
                Some(0)
            }
            Record::Carrier { pbn, authenticator } => {
                out.push(CARRIER);
                self.put_pbn(*pbn, 0, out);
                out.extend_from_slice(&FingerprintEntry { kind: Kind::Carrier, value: *authenticator }.encode());
                Some(0)
            }
            Record::Later { epochs } => {
                out.push(LATER);
                put(out, *epochs);
                Some(0)
            }
            Record::Closing { lost, .. } if lost.is_empty() => {
                out.push(CLOSING);
                Some(0)
            }
            Record::Closing { first, lost } => {
                out.push(CLOSING | (1 << UPPER_SHIFT));
                put(out, *first);
                self.lost = 0;
                self.put_parts(lost.iter().copied(), limit, out, Self::put_lost)
            }
        }
    }

    /// Appends a link, to a known or to a new block. `kind` is the kind of a link to a block; new contents are always blocks.
    fn put_link(&mut self, kind: u8, lbn: Lbn, to: MapEntry, old: Option<Pbn>, out: &mut Vec<u8>) -> Option<usize> {
        out.push(match to {
            MapEntry::Block { slot, .. } => kind | (slot << UPPER_SHIFT),
            MapEntry::Zero => LINK_ZERO,
            MapEntry::Unmapped | MapEntry::Lost => LINK_UNMAPPED,
        });
        self.put_lbn(lbn, 1, out);
        if let Some(pbn) = to.pbn() {
            self.put_pbn(pbn, 1, out);
        }
        self.put_old(old, 1, out);
        Some(0)
    }

    /// Appends, behind the kind, parts of a run of new blocks, each with the short names of its blocks.
    fn put_extent(&mut self, (lbn, pbn): (Lbn, Pbn), olds: &[OldRun], shorts: &[u32], limit: usize, out: &mut Vec<u8>) -> Option<usize> {
        let mut rest = shorts;
        let parts = olds.iter().map(|&run| {
            let (these, others) = rest.split_at(index(run.blocks));
            rest = others;
            (run, these)
        });
        self.put_run(lbn, pbn, out, |coder, out| {
            coder.put_parts(parts, limit, out, |coder, (run, shorts), follows, out| {
                coder.put_old_run(run, follows, out);
                shorts.iter().for_each(|short| out.extend_from_slice(&short.to_le_bytes()));
            })
        })
    }

    fn put_lbn(&mut self, lbn: Lbn, blocks: u64, out: &mut Vec<u8>) {
        put(out, difference(self.lbn, lbn.get()));
        self.lbn = lbn.get() + blocks;
    }

    fn put_pbn(&mut self, pbn: Pbn, blocks: u64, out: &mut Vec<u8>) {
        put(out, difference(self.pbn, pbn.get()));
        self.pbn = pbn.get() + blocks;
    }

    /// Appends a run of LBNs that mean a run of new blocks, in parts.
    fn put_run<T>(&mut self, lbn: Lbn, pbn: Pbn, out: &mut Vec<u8>, put_parts: impl FnOnce(&mut Self, &mut Vec<u8>) -> T) -> T {
        self.put_lbn(lbn, 0, out);
        self.put_pbn(pbn, 0, out);
        let parts = put_parts(self, out);
        self.pbn += self.lbn - lbn.get();
        parts
    }

    fn put_old(&mut self, old: Option<Pbn>, blocks: u64, out: &mut Vec<u8>) {
        let Some(pbn) = old else { return put(out, 0) };
        put(out, difference(self.old, pbn.get()) + 1);
        self.old = pbn.get() + blocks;
    }

    fn put_old_run(&mut self, run: OldRun, follows: u64, out: &mut Vec<u8>) {
        put(out, (run.blocks << 1) | follows);
        self.put_old(run.first, run.blocks, out);
        self.lbn += run.blocks;
    }

    fn put_lost(&mut self, pbn: Pbn, follows: u64, out: &mut Vec<u8>) {
        put(out, ((pbn.get() - self.lost) << 1) | follows);
        self.lost = pbn.get() + 1;
    }

    /// Appends parts up to a length of `limit`. Returns how many there were; none if not one. The lowest bit of a number says that another
    /// follows, so the part that turns out to be the last is corrected without a change of its length.
    fn put_parts<T>(
        &mut self,
        parts: impl Iterator<Item = T>,
        limit: usize,
        out: &mut Vec<u8>,
        put_part: impl Fn(&mut Self, T, u64, &mut Vec<u8>),
    ) -> Option<usize> {
        let (mut parts, mut done, mut last) = (parts.peekable(), 0, None);
        while let Some(part) = parts.next() {
            let (before, begin) = (*self, out.len());
            put_part(self, part, u64::from(parts.peek().is_some()), out);
            if out.len() > limit {
                *self = before;
                out.truncate(begin);
                let last: usize = last?;
                out[last] &= !PART_FOLLOWS;
                return Some(done);
            }
            (done, last) = (done + 1, Some(begin));
        }
        Some(done)
    }

    /// Takes a record from the front of `bytes`; none where no encoder made them.
    pub fn decode(&mut self, bytes: &mut &[u8]) -> Option<Record> {
        let (&first, rest) = bytes.split_first()?;
        *bytes = rest;
        let (kind, upper) = (first & 0x0f, first >> UPPER_SHIFT);
        if !matches!((kind, upper), (_, 0) | (LINK | NEW_LINK, _) | (CLOSING | EXTENT, 1)) {
            return None;
        }
        let record = match kind {
            NEW => Record::New {
                lbn: self.take_lbn(1, bytes)?,
                pbn: self.take_pbn(1, bytes)?,
                old: self.take_old(1, bytes)?,
                name: take_name(bytes)?,
            },
            LINK => Record::Link {
                lbn: self.take_lbn(1, bytes)?,
                to: MapEntry::Block { pbn: self.take_pbn(1, bytes)?, slot: upper },
                old: self.take_old(1, bytes)?,
            },
            LINK_ZERO => Record::Link { lbn: self.take_lbn(1, bytes)?, to: MapEntry::Zero, old: self.take_old(1, bytes)? },
            LINK_UNMAPPED => Record::Link { lbn: self.take_lbn(1, bytes)?, to: MapEntry::Unmapped, old: self.take_old(1, bytes)? },
            EXTENT => {
                let mut shorts = Vec::new();
                let (lbn, pbn, olds) = self.take_run(bytes, |coder, blocks, bytes| {
                    let run = coder.take_old_run(blocks, bytes)?;
                    take_shorts(blocks, bytes, &mut shorts)?;
                    Some(run)
                })?;
                Record::Extent { lbn, pbn, olds, shorts, is_apart: upper == 1 }
            }
            NEW_RUN => {
                let (lbn, pbn, olds) = self.take_run(bytes, Self::take_old_run)?;
                Record::NewRun { lbn, pbn, olds }
            }
            CLEAR_ZERO | CLEAR_UNMAPPED => Record::Clear {
                lbn: self.take_lbn(0, bytes)?,
                to: if kind == CLEAR_ZERO { MapEntry::Zero } else { MapEntry::Unmapped },
                olds: self.take_parts(bytes, Self::take_old_run)?,
            },
            REMOVED => {
                let (pbn, blocks) = (beyond(self.old, take(bytes)?), take(bytes)?);
                self.old = pbn.wrapping_add(blocks);
                Record::Removed { pbn: Pbn(pbn), blocks }
            }
            CARRIER => {
                let pbn = self.take_pbn(0, bytes)?;
                let entry = take_name(bytes).filter(|entry| entry.kind == Kind::Carrier)?;
                Record::Carrier { pbn, authenticator: entry.value }
            }
            NEW_LINK => Record::NewLink {
                lbn: self.take_lbn(1, bytes)?,
                to: MapEntry::Block { pbn: self.take_pbn(1, bytes)?, slot: upper },
                old: self.take_old(1, bytes)?,
            },
            LATER => Record::Later { epochs: take(bytes)? },
            CLOSING if upper == 0 => Record::Closing { first: 0, lost: Vec::new() },
            CLOSING => {
                self.lost = 0;
                Record::Closing { first: take(bytes)?, lost: self.take_parts(bytes, |coder, ahead, _| coder.take_lost(ahead))? }
            }
            _ => return None,
        };
        record.is_sound().then_some(record)
    }

    // The numbers that are decoded may be anything until the record as a whole is judged: hence the sums modulo 2^64.

    fn take_lbn(&mut self, blocks: u64, bytes: &mut &[u8]) -> Option<Lbn> {
        let lbn = beyond(self.lbn, take(bytes)?);
        self.lbn = lbn.wrapping_add(blocks);
        Some(Lbn(lbn))
    }

    fn take_pbn(&mut self, blocks: u64, bytes: &mut &[u8]) -> Option<Pbn> {
        let pbn = beyond(self.pbn, take(bytes)?);
        self.pbn = pbn.wrapping_add(blocks);
        Some(Pbn(pbn))
    }

    fn take_run<T>(
        &mut self,
        bytes: &mut &[u8],
        take_part: impl FnMut(&mut Self, u64, &mut &[u8]) -> Option<T>,
    ) -> Option<(Lbn, Pbn, Vec<T>)> {
        let (lbn, pbn) = (self.take_lbn(0, bytes)?, self.take_pbn(0, bytes)?);
        let parts = self.take_parts(bytes, take_part)?;
        self.pbn = pbn.get().wrapping_add(self.lbn.wrapping_sub(lbn.get()));
        Some((lbn, pbn, parts))
    }

    fn take_old(&mut self, blocks: u64, bytes: &mut &[u8]) -> Option<Option<Pbn>> {
        let Some(folded) = take(bytes)?.checked_sub(1) else { return Some(None) };
        let pbn = beyond(self.old, folded);
        self.old = pbn.wrapping_add(blocks);
        Some(Some(Pbn(pbn)))
    }

    fn take_old_run(&mut self, blocks: u64, bytes: &mut &[u8]) -> Option<OldRun> {
        let first = self.take_old(blocks, bytes)?;
        self.lbn = self.lbn.wrapping_add(blocks);
        Some(OldRun { first, blocks })
    }

    fn take_lost(&mut self, ahead: u64) -> Option<Pbn> {
        let pbn = self.lost.checked_add(ahead)?;
        self.lost = pbn.checked_add(1)?;
        Some(Pbn(pbn))
    }

    /// Takes parts up to the last. Each takes a byte or more, so there are never many.
    fn take_parts<T>(&mut self, bytes: &mut &[u8], mut take_part: impl FnMut(&mut Self, u64, &mut &[u8]) -> Option<T>) -> Option<Vec<T>> {
        let mut parts = Vec::new();
        loop {
            let first = take(bytes)?;
            parts.push(take_part(self, first >> 1, bytes)?);
            if first & u64::from(PART_FOLLOWS) == 0 {
                return Some(parts);
            }
        }
    }
}

fn take_shorts(blocks: u64, bytes: &mut &[u8], out: &mut Vec<u32>) -> Option<()> {
    let blocks = index(Some(blocks).filter(|&blocks| blocks <= EXTENT_PART_BLOCKS_MAX)?);
    for _ in 0..blocks {
        let (short, rest) = bytes.split_first_chunk::<SHORT_NAME_SIZE>()?;
        *bytes = rest;
        out.push(u32::from_le_bytes(*short));
    }
    Some(())
}

fn take_name(bytes: &mut &[u8]) -> Option<FingerprintEntry> {
    let (name, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    FingerprintEntry::decode(name).ok()
}
