//! The index: fingerprint → PBN, in memory, within its share of the budget.
//!
//! 1. The index is advice: the fingerprint table, or a pending block, confirms a match before anything is linked to it.
//! 2. An entry has a tag of the fingerprint, a PBN, and whether the block is doubtful (`line.rs`). If twice the blocks of the volume have
//!    room, it has eight bytes, and different contents hardly ever agree in bucket and tag. Otherwise it has as few bytes as will do; then
//!    they agree once in some ten thousand look-ups, which costs a look into the table, and each has an entry.
//! 3. A bucket is a line of the processor's cache. A fingerprint has two of them: where the first one is full, it goes to the second one.
//!    Where both are, an entry of one of them goes to its other bucket, until the index is nearly full; then one is evicted, mostly the
//!    least recently used one.
//! 4. Where a bucket has evicted an entry, content that it does not have may be stored all the same. A bit for each bucket records that.
//!    Writes of such content enter the skipped buffer (`skipped.rs`). Their blocks are doubtful until the work out of line has looked for
//!    another one: whatever is linked to them meanwhile has to be mapped to that one, too.
//! 5. The duplicates that were found last lead to the next ones (`runs.rs`). So that runs begin in content that was written long ago, too,
//!    a sample of the fingerprints stays longer than others, and a rebuild keeps room for it.

mod line;
mod lines;
mod marks;
mod prefetched;
mod ranges;
mod runs;
mod skipped;
#[cfg(test)]
mod tests;
mod to_compare;

pub use prefetched::PrefetchCounts;
pub(crate) use prefetched::Prefetched;
pub(crate) use ranges::Ranges;
pub use skipped::{Fill, SkippedCounts};
pub(crate) use skipped::{NamedLbn, Skipped, TagLayout};
pub(crate) use to_compare::ToCompare;

use crate::fingerprint::Fingerprint;
use crate::format::page::PageId;
use crate::settings::INDEX_BYTES_MIN;
use crate::units::{Lbn, Pbn, count, index};
use line::{LINE_BYTES, Layout, Line, SAMPLED};
use lines::{Lines, Place};
use marks::Marks;
use runs::Runs;
use std::hint::black_box;

/// The index in memory.
pub struct Index {
    lines: Lines,
    used: u64,
    /// The buckets that have evicted an entry, or did not take one in.
    lossy: Marks,
    /// The buckets whose fingerprints may be in their other buckets.
    spilled: Marks,
    /// Entries that any bucket could have were not taken in.
    lacks_some: bool,
    /// A rebuild has seen all fingerprints.
    is_rebuilt: bool,
    /// It has met a block whose content may be that of another block, which was written meanwhile.
    met_another: bool,
    /// Some block may be doubtful.
    has_doubts: bool,
    runs: Runs,
    /// The page that the next look-up has to wait for.
    #[cfg(test)]
    pub absent: Option<PageId>,
}

impl Index {
    /// Makes an index with as many entries as fit in `bytes`, but no more than a volume of `blocks` blocks can fill.
    #[must_use]
    pub fn new(bytes: u64, blocks: u64) -> Self {
        // A bucket has two bits besides its line, and what precedes the first line is not used.
        let line_bytes = count(LINE_BYTES);
        let room = bytes.saturating_sub(line_bytes) / (8 * line_bytes + 2) * 8;
        let wide = Layout::wide(blocks);
        let wanted = blocks.saturating_mul(2) / count(wide.ways());
        let layout = if wanted <= room { wide } else { Layout::narrow(blocks) };
        let buckets = index(room.min(wanted).max(INDEX_BYTES_MIN / line_bytes));
        Self {
            lines: Lines::new(layout, buckets),
            used: 0,
            lossy: Marks::new(buckets),
            spilled: Marks::new(buckets),
            lacks_some: false,
            is_rebuilt: false,
            met_another: false,
            has_doubts: false,
            runs: Runs::default(),
            #[cfg(test)]
            absent: None,
        }
    }

    /// The number of entries in use.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.used
    }

    /// The number of entries that fit.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.lines.capacity()
    }

    /// From this number of entries on, many buckets are full.
    fn nearly_full(&self) -> u64 {
        self.capacity() / 16 * 15
    }

    /// The bytes of its memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.lines.bytes() + self.lossy.bytes() + self.spilled.bytes()
    }

    /// Whether content that the index does not find is stored nowhere.
    pub fn is_whole(&self) -> bool {
        self.is_rebuilt && !self.lacks_some && self.lossy.is_clear()
    }

    /// Whether content with this fingerprint is stored nowhere if the index does not find it.
    #[must_use]
    pub fn is_whole_for(&self, fp: &Fingerprint) -> bool {
        let has_lost = || {
            let [first, second] = self.buckets_of(fp);
            self.lossy.get(first) || self.spilled.get(first) && self.lossy.get(second)
        };
        self.is_whole() || self.is_rebuilt && !self.lacks_some && !has_lost()
    }

    /// Notes that a rebuild has seen all fingerprints, or only some of them. Whether nothing that was written meanwhile can have been
    /// stored before.
    pub fn rebuild_ended(&mut self, saw_all: bool) -> bool {
        self.is_rebuilt = true;
        self.lacks_some |= !saw_all;
        let is_certain = self.is_whole() && !self.met_another;
        self.has_doubts &= !is_certain;
        is_certain
    }

    /// Brings the buckets of these fingerprints into the processor's cache. Their waits for memory overlap here; look-ups with work between
    /// them would wait one by one.
    pub fn warm(&self, fps: impl Iterator<Item = Fingerprint>) {
        black_box(fps.fold(0, |sum, fp| sum ^ self.lines.line(self.lines.first_of(&fp))[0]));
    }

    /// The two buckets of a fingerprint.
    fn buckets_of(&self, fp: &Fingerprint) -> [usize; 2] {
        let first = self.lines.first_of(fp);
        [first, self.lines.other_of(first, self.lines.layout.tag(fp.head()))]
    }

    /// The place of the entry for this content. `is_it` is asked for each bucket.
    fn place(&self, fp: &Fingerprint, is_it: impl Fn(Layout, &Line, u64) -> Option<usize>) -> Option<Place> {
        let (layout, tag, first) = (self.lines.layout, self.lines.layout.tag(fp.head()), self.lines.first_of(fp));
        let look = |bucket: usize| is_it(layout, self.lines.line(bucket), tag).map(|at| (bucket, at));
        look(first).or_else(|| if self.spilled.get(first) { look(self.lines.other_of(first, tag)) } else { None })
    }

    /// The places of this content's buckets, the most recently used ones of each first.
    fn places(&self, fp: &Fingerprint) -> impl Iterator<Item = Place> + use<> {
        let [first, second] = self.buckets_of(fp);
        let (buckets, ways) = ([Some(first), Some(second).filter(|_| self.spilled.get(first))], self.lines.layout.ways());
        buckets.into_iter().flatten().flat_map(move |bucket| (0..ways).rev().map(move |at| (bucket, at)))
    }

    /// Whether the entry at a place may be for this content.
    fn is_alike(&self, place: Place, fp: &Fingerprint) -> bool {
        self.lines.layout.has_tag(self.lines.get(place), self.lines.layout.tag(fp.head()))
    }

    /// The place of the most recently used entry that may be for this content.
    fn find(&self, fp: &Fingerprint) -> Option<Place> {
        self.place(fp, Layout::find)
    }

    /// The block of the most recently used entry that may be for this content.
    fn first_block(&self, fp: &Fingerprint) -> Option<Pbn> {
        let (layout, tag, first) = (self.lines.layout, self.lines.layout.tag(fp.head()), self.lines.first_of(fp));
        let look = |bucket: usize| layout.block_of(self.lines.line(bucket), tag);
        look(first).or_else(|| if self.spilled.get(first) { look(self.lines.other_of(first, tag)) } else { None })
    }

    /// The place of the entry that says that `pbn` holds this content.
    fn find_block(&self, fp: &Fingerprint, pbn: Pbn) -> Option<Place> {
        self.place(fp, |layout, line, tag| layout.find_block(line, tag, pbn))
    }

    /// An empty place for this content.
    fn find_empty(&mut self, fp: &Fingerprint) -> Option<Place> {
        let first = self.lines.first_of(fp);
        if let Some(at) = self.lines.find_empty(first) {
            return Some((first, at));
        }
        let second = self.lines.other_of(first, self.lines.layout.tag(fp.head()));
        if let Some(at) = self.lines.find_empty(second) {
            self.spilled.set(first);
            return Some((second, at));
        }
        // When nearly all are full, this would look in vain.
        if self.used >= self.nearly_full() {
            return None;
        }
        let (bucket, at) = [first, second].into_iter().find_map(|bucket| self.lines.move_one(bucket).map(|at| (bucket, at)))?;
        self.spilled.set(bucket);
        self.spilled.set(first);
        Some((bucket, at))
    }

    /// Returns the block that may hold this content: the `nth` one, where tags are short or a content has several blocks.
    ///
    /// # Errors
    /// Returns the page that has to come into memory first, if the answer lies on the medium; the caller waits for it and asks again. The
    /// level in memory, which is the only one so far, always has its answer.
    pub fn look_up(&mut self, fp: &Fingerprint, nth: usize) -> Result<Option<Pbn>, PageId> {
        if let Some(page) = self.take_absent() {
            return Err(page);
        }
        let place = match nth {
            0 => return Ok(self.first_block(fp)),
            _ if !self.lines.layout.is_narrow() => None,
            _ => self.places(fp).filter(|&place| self.is_alike(place, fp)).nth(nth),
        };
        Ok(place.map(|place| self.lines.layout.pbn(self.lines.get(place))))
    }

    /// The page that a test has said to be absent.
    #[cfg(test)]
    fn take_absent(&mut self) -> Option<PageId> {
        self.absent.take()
    }

    /// No page: the level in memory lacks none.
    #[cfg(not(test))]
    const fn take_absent(&self) -> Option<PageId> {
        None
    }

    /// The blocks that may hold what is written to this LBN, although the index does not have its fingerprint. None: it is stored nowhere.
    #[must_use]
    pub fn following(&self, lbn: Lbn, fp: &Fingerprint) -> Option<impl Iterator<Item = Pbn> + use<>> {
        if self.is_whole_for(fp) { None } else { Some(self.runs.candidates(lbn)) }
    }

    /// A block of each page that may have what is written to this LBN, if it is none of those that [`Self::following`] names.
    pub fn pages_around(&self, lbn: Lbn) -> impl Iterator<Item = Pbn> + use<> {
        self.runs.pages(lbn)
    }

    /// Notes that an LBN was found to have the content of this stored block, whose entry becomes the most recently used. Whether the block
    /// is doubtful; one without an entry is as doubtful as the one before it in its run.
    pub fn note_duplicate(&mut self, lbn: Lbn, pbn: Pbn, fp: &Fingerprint) -> bool {
        // A whole index leads nowhere else, and nothing leaves it.
        if self.is_whole() && !self.has_doubts {
            return false;
        }
        let is_doubtful = match self.find_block(fp, pbn) {
            Some(place) => {
                let entry = self.lines.get(place);
                self.lines.replace(place, entry);
                self.lines.layout.is_doubtful(entry)
            }
            None => self.runs.are_doubtful(lbn, pbn),
        };
        self.runs.note(lbn, pbn, is_doubtful);
        is_doubtful
    }

    /// The place of the entry that a new one for this block replaces. Where tags are short, an entry for another block may be that of
    /// another content.
    fn find_replaced(&self, fp: &Fingerprint, pbn: Pbn) -> Option<Place> {
        if self.lines.layout.is_narrow() { self.find_block(fp, pbn) } else { self.find(fp) }
    }

    /// Makes `pbn` the block with this content, before any other block.
    pub fn insert(&mut self, fp: &Fingerprint, pbn: Pbn) {
        let (layout, first) = (self.lines.layout, self.lines.first_of(fp));
        let tag = layout.tag(fp.head());
        let entry = layout.entry(tag, pbn);
        // Mostly there is no such entry, and the first bucket has room.
        if !self.spilled.get(first) && self.lines.has_room_without(first, tag) {
            self.lines.append(first, entry);
            self.used += 1;
        } else if let Some(place) = self.find_replaced(fp, pbn) {
            self.lines.replace(place, entry);
        } else if let Some(place) = self.find_empty(fp) {
            self.lines.put(place, entry);
            self.used += 1;
        } else {
            let [first, second] = self.buckets_of(fp);
            let full = if fp.head() >> 32 & 1 == 0 { first } else { second };
            if full == second {
                self.spilled.set(first);
            }
            self.lines.replace((full, self.lines.evicted(full)), entry);
            self.lossy.set(full);
        }
    }

    /// Marks the blocks that may hold this content as doubtful.
    pub fn doubt(&mut self, fp: &Fingerprint) {
        self.has_doubts = true;
        for place in self.places(fp) {
            if self.is_alike(place, fp) {
                self.lines.set_doubt(place, true);
            }
        }
    }

    /// Ends the doubt about a block: no block before it has its content.
    pub fn end_doubt(&mut self, fp: &Fingerprint, pbn: Pbn) {
        if let Some(place) = self.find_block(fp, pbn) {
            self.lines.set_doubt(place, false);
        }
    }

    /// Makes `pbn` a block with this content if the index may have no other one, and if there is an empty entry. An index rebuild may do
    /// only this.
    pub fn offer(&mut self, fp: &Fingerprint, pbn: Pbn) -> bool {
        let layout = self.lines.layout;
        let known = self.find(fp).map(|place| layout.pbn(self.lines.get(place)));
        self.met_another |= known.is_some_and(|known| known != pbn);
        if self.find_replaced(fp, pbn).is_some() {
            return false;
        }
        let Some(place) = self.find_empty(fp) else {
            self.left_out(fp);
            return false;
        };
        self.lines.put(place, layout.entry(layout.tag(fp.head()), pbn));
        self.used += 1;
        true
    }

    /// Makes `pbn` a block with this content as [`Self::offer`] does, if there is room beside the sample of what is still to come; or if
    /// the fingerprint is in the sample, and there is room for all of its rank.
    pub fn offer_before(&mut self, fp: &Fingerprint, pbn: Pbn, to_come: u64) -> bool {
        let rank = self.lines.layout.rank(self.lines.layout.tag(fp.head()));
        let is_sample = rank >= SAMPLED && self.used + to_come.checked_shr(rank).unwrap_or(0) < self.capacity();
        if is_sample || self.takes_all(to_come) {
            return self.offer(fp, pbn);
        }
        self.left_out(fp);
        false
    }

    /// Whether a rebuild may offer all fingerprints, with this number of blocks still to come: there is to be room for the sample of these,
    /// in half of the index at most.
    #[must_use]
    pub fn takes_all(&self, to_come: u64) -> bool {
        self.used < self.capacity() / 2 || self.used.saturating_add(to_come >> SAMPLED) < self.nearly_full()
    }

    /// Notes that not all entries that may be for this content were looked at, so that it may be stored although it was not found.
    pub fn left_out(&mut self, fp: &Fingerprint) {
        self.lossy.set(self.lines.first_of(fp));
    }

    /// Removes the entry that says that `pbn` holds this content. Whether there was one.
    pub fn remove(&mut self, fp: &Fingerprint, pbn: Pbn) -> bool {
        let Some(place) = self.find_block(fp, pbn) else { return false };
        self.lines.take_out(place);
        self.used -= 1;
        true
    }

    /// Removes the entry that says that `pbn` holds this content, which the table does not confirm; unless tags are so short that it may
    /// well be that of another content.
    pub fn remove_unconfirmed(&mut self, fp: &Fingerprint, pbn: Pbn) {
        if !self.lines.layout.is_narrow() {
            self.remove(fp, pbn);
        }
    }
}
