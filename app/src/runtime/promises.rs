//! Keeping acknowledged writes of a volume whose clients outlive its server: the engine reports them, the [journal](super::ring) holds
//! them.
//!
//! 1. A journal belongs to one incarnation of the volume and is named after it. The open records of the last server are copied into the new
//!    journal before the engine's first step. So the journal of whichever incarnation the superblock shows after a kill holds everything.
//! 2. Copied records stay until the engine reports that they are durable; the others until their epoch is.
//! 3. A content frees its place in the journal when a later record for its LBN is there, or its epoch is durable.
//! 4. A journal that could not take a record is removed: then the next server knows that records are missing.

use super::ring::{ContentPlace, LINK_BYTES, Record, Replay, ReplayError, Ring, Seq};
use onefold_engine::buffer::BufferMut;
use onefold_engine::fingerprint::Fingerprint;
use onefold_engine::format::Superblock;
use onefold_engine::format::entry::FingerprintEntry;
use onefold_engine::interface::{Legacy, Promise, Promised, Traces};
use onefold_engine::units::{Blocks, Epoch, Lbn, count};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};

/// The epoch of copied records, which no epoch's end makes durable.
const COPIED: Epoch = Epoch(u64::MAX);

/// The journal of a server, and its contents.
#[derive(Debug)]
pub struct Promises {
    ring: Option<Ring>,
    path: PathBuf,
    old: Option<PathBuf>,
    copied_upto: Option<Seq>,
    standing: VecDeque<(Seq, Epoch)>,
    /// The places of the valid contents, and the epoch that makes each durable.
    contents: HashMap<Lbn, (ContentPlace, Epoch)>,
}

/// The capacity of a server's journal.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// The number of records.
    pub records: u64,
    /// The number of records that have the content of a block.
    pub contents: u64,
}

impl Room {
    /// Returns the bytes of records, and the number of contents, of a journal that has room for these and the last one's rest.
    fn with(self, left: &[Promised]) -> (u64, u32) {
        // Records of an epoch are freed after all earlier ones, and the last record of a lap may find no room in it.
        let records = (self.records + count(left.len())) * 2 * LINK_BYTES;
        let contents = left.iter().filter(|what| matches!(what, Promised::Content { .. })).count();
        (records, u32::try_from(self.contents + count(contents)).unwrap_or(u32::MAX))
    }
}

/// The open records of the last server.
#[derive(Debug, Default)]
pub struct Left {
    pub legacy: Legacy,
    /// Some of its acknowledged writes are not known any more.
    pub lost: bool,
}

impl Left {
    /// Returns the records of a journal that no known epoch has made durable.
    #[must_use]
    pub fn of(replay: &Replay) -> Self {
        let legacy = Legacy { promises: Vec::new(), traces: replay.traces() };
        let mut left = Self { legacy, lost: replay.damaged };
        for record in replay.open_promises() {
            match promised(record) {
                Some(promise) => left.legacy.promises.push(promise),
                None => left.lost = true,
            }
        }
        left
    }
}

impl Promises {
    /// Makes the journal for the incarnation that is about to begin, with `room`. `resumed`: the device that clients hold has outlived a
    /// server, so a missing journal means that acknowledged writes are lost.
    ///
    /// # Errors
    /// When the journal cannot be made.
    pub fn open(base: &Path, superblock: &Superblock, room: Room, resumed: bool) -> io::Result<(Self, Left)> {
        let old = named(base, superblock.incarnation);
        let mut left = Left::default();
        match Ring::replay(&old, superblock.uuid) {
            Ok(replay) if replay.incarnation == superblock.incarnation => left = Left::of(&replay),
            Ok(_) => left.lost = resumed,
            Err(ReplayError::Missing) => left.lost = resumed && !superblock.clean,
            Err(error) => {
                tracing::warn!(%error, path = %old.display(), "the last server's promises cannot be read");
                left.lost = resumed;
            }
        }
        let path = named(base, superblock.incarnation + 1);
        let (bytes, contents) = room.with(&left.legacy.promises);
        let ring = Ring::create(&path, bytes, contents, superblock.uuid, superblock.incarnation + 1)?;
        let (standing, contents) = (VecDeque::new(), HashMap::new());
        let mut promises = Self { ring: Some(ring), path, old: Some(old), copied_upto: None, standing, contents };
        for promise in &left.legacy.promises {
            promises.copied_upto = promises.append(COPIED, promise);
        }
        if let Some(ring) = &mut promises.ring {
            // The traces identify the store until an epoch of this server is durable.
            ring.kept(Epoch(0), left.legacy.traces, None);
        }
        Ok((promises, left))
    }

    /// Adds records, in order.
    pub fn remember(&mut self, promises: &[Promise]) {
        for promise in promises {
            if let Some(seq) = self.append(promise.epoch, &promise.what) {
                self.standing.push_back((seq, promise.epoch));
            }
        }
    }

    fn append(&mut self, epoch: Epoch, what: &Promised) -> Option<Seq> {
        let (lbn, record) = match *what {
            Promised::Link { lbn, pbn, slot, proof } => (Some(lbn), Record::Link { lbn, pbn, slot, proof: proof.encode() }),
            Promised::Content { lbn, ref content } => (Some(lbn), Record::Content { lbn, content: content.block(0) }),
            Promised::Zero { lbn } => (Some(lbn), Record::Zero { first: lbn, blocks: Blocks(1) }),
            Promised::Unmap { first, end } => (None, Record::Unmap { first, blocks: Blocks(end - first) }),
        };
        let Ok((seq, place)) = self.ring.as_mut()?.append(epoch, &record) else {
            tracing::error!("the acknowledgement journal is full: from here on, a kill of this server loses what no flush has covered");
            self.remove();
            return None;
        };
        if let Some(lbn) = lbn {
            let place = place.map(|place| (place, epoch));
            let before = match place {
                Some(place) => self.contents.insert(lbn, place),
                None => self.contents.remove(&lbn),
            };
            self.release(before.map(|(place, _)| place));
        }
        Some(seq)
    }

    /// Frees the places of contents that are no longer valid.
    fn release(&mut self, places: impl IntoIterator<Item = ContentPlace>) {
        if let Some(ring) = &mut self.ring {
            places.into_iter().for_each(|place| ring.release(place));
        }
    }

    /// Frees the places of contents whose epoch is durable, as the journal has noted already.
    fn release_of(&mut self, is_durable: impl Fn(Epoch) -> bool) {
        let (gone, left) = std::mem::take(&mut self.contents).into_iter().partition::<HashMap<_, _>, _>(|(_, (_, of))| is_durable(*of));
        self.contents = left;
        self.release(gone.into_values().map(|(place, _)| place));
    }

    /// Notes that every epoch up to this one is durable, and has left these traces on the medium.
    pub fn forget(&mut self, epoch: Epoch, traces: Traces) {
        let mut upto = None;
        while self.standing.front().is_some_and(|&(_, of)| of <= epoch) {
            upto = self.standing.pop_front().map(|(seq, _)| seq);
        }
        if let Some(ring) = &mut self.ring {
            // Copied records come before all others.
            ring.kept(epoch, traces, upto.filter(|_| self.copied_upto.is_none()));
        }
        self.release_of(|of| of <= epoch);
    }

    /// Notes that the last server's records are durable.
    pub fn replayed(&mut self) {
        if let (Some(ring), Some(upto)) = (&mut self.ring, self.copied_upto.take()) {
            ring.committed(upto);
        }
        self.release_of(|of| of == COPIED);
        if let Some(old) = self.old.take() {
            remove(&old);
        }
    }

    /// Removes the journal: everything is durable and the volume closed.
    pub fn remove(&mut self) {
        self.ring = None;
        remove(&self.path);
        if let Some(old) = self.old.take() {
            remove(&old);
        }
    }
}

/// Converts a record for an engine; none where no server writes such a record.
fn promised(record: Record<'_>) -> Option<Promised> {
    Some(match record {
        Record::Link { lbn, pbn, slot, proof } => {
            // An earlier version wrote fingerprints without their kind.
            let proof = FingerprintEntry::decode(&proof).unwrap_or_else(|_| FingerprintEntry::of(Fingerprint(proof)));
            Promised::Link { lbn, pbn, slot, proof }
        }
        Record::Content { lbn, content } => {
            let mut block = BufferMut::zeroed(1);
            *block.block_mut(0) = *content;
            Promised::Content { lbn, content: block.freeze().slice(0, 1) }
        }
        Record::Zero { first, blocks: Blocks(1) } => Promised::Zero { lbn: first },
        Record::Zero { .. } => return None,
        Record::Unmap { first, blocks } => Promised::Unmap { first, end: Lbn(first.get().checked_add(blocks.get())?) },
    })
}

/// Whether the last server of this volume has left a journal.
#[must_use]
pub fn are_kept(base: &Path, superblock: &Superblock) -> bool {
    named(base, superblock.incarnation).exists()
}

fn named(base: &Path, incarnation: u64) -> PathBuf {
    let mut name = base.as_os_str().to_owned();
    name.push(format!(".{incarnation}"));
    name.into()
}

fn remove(path: &Path) {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => tracing::warn!(%error, path = %path.display(), "cannot remove the ring"),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_engine::units::Pbn;

    #[test]
    fn what_no_server_promises_is_none() {
        let (far, first) = (Lbn(u64::MAX - 3), Lbn(4));
        assert!(matches!(promised(Record::Unmap { first: far, blocks: Blocks(3) }), Some(Promised::Unmap { end: Lbn(u64::MAX), .. })));
        assert!(promised(Record::Unmap { first: far, blocks: Blocks(4) }).is_none());
        assert!(promised(Record::Unmap { first, blocks: Blocks(u64::MAX) }).is_none());
        assert!(
            promised(Record::Zero { first, blocks: Blocks(0) }).is_none() && promised(Record::Zero { first, blocks: Blocks(2) }).is_none()
        );
        let proof = [0; 20];
        assert!(promised(Record::Link { lbn: first, pbn: Pbn(1), slot: 255, proof }).is_some(), "the engine knows its slots");
    }

    /// Two servers are killed, one after the other, and the second has made nothing durable: the third identifies the store by the traces
    /// of the first.
    #[test]
    fn a_ring_takes_over_what_its_store_is_known_by() {
        use onefold_engine::fingerprint::Algorithm;
        use onefold_engine::format::{Geometry, Wish};
        use onefold_engine::interface::Trace;
        use onefold_engine::settings::Settings;
        use onefold_engine::units::Bytes;
        let geometry = Geometry::plan(Bytes(16 << 20), &Wish::default()).unwrap();
        let mut superblock = Superblock::new(geometry, [5; 16], [6; 32], Algorithm::Blake3, &Settings::default());
        let folder = std::env::temp_dir().join(format!("onefold-promises-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (base, room) = (folder.join("ring"), Room { records: 16, contents: 4 });
        let traces = [Some(Trace::Map { sector: 3, sum: 7 }), None];
        let promise = Promise { epoch: Epoch(2), what: Promised::Zero { lbn: Lbn(9) } };
        let (mut first, _) = Promises::open(&base, &superblock, room, false).unwrap();
        first.forget(Epoch(1), traces);
        first.remember(std::slice::from_ref(&promise));
        for _ in 0..2 {
            superblock.incarnation += 1;
            let (_, left) = Promises::open(&base, &superblock, room, true).unwrap();
            assert_eq!(left.legacy.traces, traces);
            assert!(matches!(left.legacy.promises[..], [Promised::Zero { lbn: Lbn(9) }]) && !left.lost);
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// The property of the fuzz target, checked for seeds.
    #[test]
    fn no_ring_of_hostile_numbers_makes_its_reader_panic() {
        use crate::runtime::ring::exercise::{Forged, Numbers, forge};
        const VOLUME: [u8; 16] = [5; 16];
        let mut state = 1_u64;
        let mut draw = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            state >> 16
        };
        let mut kept = 0;
        for _ in 0..20_000 {
            let edges = [0, 1, 1 << 16, 1 << 40, (1 << 56) - 1, 1 << 56, 1 << 63, u64::MAX - 1, u64::MAX, draw()];
            let mut edge = || edges[usize::try_from(draw() % 10).unwrap()];
            let (first, value, epoch, tail, many) = (edge(), edge(), edge(), edge(), edge() % 6);
            let code = Forged::KINDS[usize::try_from(draw()).unwrap() % Forged::KINDS.len()];
            let content_bytes = [0, 4096, 20, 40, u32::MAX][usize::try_from(draw() % 5).unwrap()];
            let content = vec![1; if content_bytes == u32::MAX { 0 } else { content_bytes as usize }];
            let records =
                vec![Forged { code, first, value, epoch: epoch.saturating_add(1), content, content_bytes }; usize::try_from(many).unwrap()];
            let tail = if tail < 1 << 16 { 1 << 14 } else { tail };
            let ring = forge(VOLUME, &Numbers { incarnation: 3, tail, epoch, traces: [None; 2] }, &records);
            let Ok(replay) = Replay::parse(ring, VOLUME) else { continue };
            kept += Left::of(&replay).legacy.promises.len();
        }
        assert!(kept > 1000, "{kept}");
    }
}
