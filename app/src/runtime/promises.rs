//! Keeping acknowledged writes of a volume whose clients outlive its server: the engine reports them, the [journal](super::ring) holds
//! them.
//!
//! 1. An attachment has one journal, which goes from server to server: each takes it over before the engine's first step, with the records
//!    of the last one. So there is room for it as long as the attachment lasts, and a kill at any moment finds everything in it.
//! 2. The last server's records stay until the engine reports that they are durable, and nothing is added before; the others stay until
//!    their epoch is durable.
//! 3. A content frees its place in the journal when a later record for its LBN is there, or its epoch is durable.
//! 4. A journal that could not take a record, or that had to be made anew, says that records are missing until a server has served.

use super::ring::{ContentPlace, LINK_BYTES, Record, Replay, ReplayError, Ring, Seq};
use onefold_engine::buffer::BufferMut;
use onefold_engine::fingerprint::Fingerprint;
use onefold_engine::format::Superblock;
use onefold_engine::format::entry::FingerprintEntry;
use onefold_engine::interface::{Legacy, Promise, Promised, Traces};
use onefold_engine::units::{BLOCK_BYTES, Blocks, Epoch, Lbn};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::Path;

/// The journal of a server, and its contents.
#[derive(Debug)]
pub struct Promises {
    ring: Option<Ring>,
    /// This server has made it, and has not begun to use it.
    is_new: bool,
    /// A record found no room: the journal says that some are lost, and takes no more.
    is_broken: bool,
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
    /// Returns the bytes of the records of a journal with this room.
    fn record_bytes(self) -> u64 {
        // Records of an epoch are freed after all earlier ones, and the last record of a lap may find no room in it.
        self.records * 2 * LINK_BYTES
    }

    /// Returns the room of a journal, whoever has made it.
    fn of(ring: &Ring) -> Self {
        Self { records: ring.capacity() / (2 * LINK_BYTES), contents: ring.contents() }
    }

    /// Returns the bytes of the whole journal.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.record_bytes() + self.contents * BLOCK_BYTES
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
    /// Takes over the journal at `path`, or makes one with `room`, for the incarnation that is about to begin. `resumed`: the device that
    /// clients hold has outlived a server, so a missing journal means that acknowledged writes are lost.
    ///
    /// # Errors
    /// When no journal can be made.
    pub fn open(path: &Path, superblock: &Superblock, room: Room, resumed: bool) -> io::Result<(Self, Left)> {
        let mut left = Left::default();
        let found = match Ring::take_over(path, superblock.uuid, superblock.incarnation) {
            Ok((mut ring, replay)) => {
                left = Left::of(&replay);
                left.lost |= resumed && replay.has_lost();
                if !left.lost {
                    ring.loss_told();
                }
                Some(ring)
            }
            Err(ReplayError::Missing | ReplayError::Outdated) => {
                left.lost = resumed && !superblock.clean;
                None
            }
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "the last server's promises cannot be read");
                left.lost = resumed;
                None
            }
        };
        let is_new = found.is_none();
        let ring = match found {
            Some(ring) => ring,
            None => {
                // What cannot be used takes no room beside the new one.
                let _ = std::fs::remove_file(path);
                let contents = u32::try_from(room.contents).unwrap_or(u32::MAX);
                let mut ring = Ring::create(path, room.record_bytes(), contents, superblock.uuid, superblock.incarnation)?;
                if left.lost {
                    ring.lose();
                }
                ring
            }
        };
        Ok((Self { ring: Some(ring), is_new, is_broken: false, standing: VecDeque::new(), contents: HashMap::new() }, left))
    }

    /// Returns the room of the journal.
    #[must_use]
    pub fn room(&self) -> Room {
        self.ring.as_ref().map_or(Room { records: 0, contents: 0 }, Room::of)
    }

    /// Removes the journal if no other server has had it: this one is not going to serve.
    pub fn give_up(&mut self) {
        if self.is_new {
            self.remove();
        }
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
        let ring = self.ring.as_mut().filter(|_| !self.is_broken)?;
        let Ok((seq, place)) = ring.append(epoch, &record) else {
            tracing::error!("the acknowledgement journal is full: from here on, a kill of this server loses what no flush has covered");
            // The file stays, so that the next server has its room.
            ring.lose();
            self.is_broken = true;
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
            ring.kept(epoch, traces, upto);
        }
        self.release_of(|of| of <= epoch);
    }

    /// Notes that the last server's records are durable.
    pub fn replayed(&mut self) {
        self.is_new = false;
        self.ring.iter_mut().for_each(Ring::replayed);
    }

    /// Notes that a client has heard that acknowledged writes of the last server are lost.
    pub fn loss_told(&mut self) {
        // A loss of this server is for the next one to tell.
        self.ring.iter_mut().filter(|_| !self.is_broken).for_each(Ring::loss_told);
    }

    /// Makes the journal's file again, if somebody has removed it.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn make_again(&mut self) -> io::Result<()> {
        self.ring.as_mut().map_or(Ok(()), Ring::make_again)
    }

    /// Removes the journal: everything is durable and the volume closed.
    pub fn remove(&mut self) {
        if let Some(ring) = self.ring.take() {
            ring.remove();
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
pub fn are_kept(path: &Path, superblock: &Superblock) -> bool {
    Ring::replay(path, superblock.uuid).is_ok_and(|replay| replay.owner().is(superblock.incarnation))
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
        use onefold_engine::interface::Trace;
        let (folder, mut superblock) = (tempfile::tempdir().unwrap(), superblock());
        let (path, room) = (folder.path().join("ring"), Room { records: 16, contents: 4 });
        let traces = [Some(Trace::Map { sector: 3, sum: 7 }), None];
        let promise = Promise { epoch: Epoch(2), what: Promised::Zero { lbn: Lbn(9) } };
        let (mut first, _) = Promises::open(&path, &superblock, room, false).unwrap();
        first.replayed();
        first.forget(Epoch(1), traces);
        first.remember(std::slice::from_ref(&promise));
        for _ in 0..2 {
            superblock.incarnation += 1;
            let (_, left) = Promises::open(&path, &superblock, room, true).unwrap();
            assert_eq!(left.legacy.traces, traces);
            assert!(matches!(left.legacy.promises[..], [Promised::Zero { lbn: Lbn(9) }]) && !left.lost);
        }
        assert!(are_kept(&path, &superblock));
    }

    /// A server that cannot promise something, and is killed, has the next one report it, even if that is killed as well.
    #[test]
    fn a_loss_is_handed_on_until_a_client_hears_of_it() {
        let (folder, mut superblock) = (tempfile::tempdir().unwrap(), superblock());
        let (path, room) = (folder.path().join("ring"), Room { records: 16, contents: 4 });
        let (mut first, left) = Promises::open(&path, &superblock, room, false).unwrap();
        assert!(!left.lost);
        first.replayed();
        let promise = |lbn| Promise { epoch: Epoch(2), what: Promised::Zero { lbn: Lbn(lbn) } };
        (0..4000).for_each(|lbn| first.remember(&[promise(lbn)]));
        superblock.incarnation += 1;
        for _ in 0..2 {
            let (_, left) = Promises::open(&path, &superblock, room, true).unwrap();
            assert!(left.lost && left.legacy.promises.is_empty());
        }
        std::fs::write(&path, "no journal").unwrap();
        let lost = |superblock: &Superblock| Promises::open(&path, superblock, room, true).unwrap();
        assert!(lost(&superblock).1.lost && lost(&superblock).1.lost, "not even with the journal that was made instead");
        let (mut last, _) = lost(&superblock);
        last.replayed();
        superblock.incarnation += 1;
        let (mut next, left) = lost(&superblock);
        assert!(left.lost, "nobody has heard of it");
        next.loss_told();
        assert!(!lost(&superblock).1.lost);
        last.remove();
        assert!(!path.exists());
    }

    fn superblock() -> Superblock {
        use onefold_engine::fingerprint::Algorithm;
        use onefold_engine::format::{Geometry, Wish};
        use onefold_engine::settings::Settings;
        use onefold_engine::units::Bytes;
        let geometry = Geometry::plan(Bytes(16 << 20), &Wish::default()).unwrap();
        Superblock::new(geometry, [5; 16], [6; 32], Algorithm::Blake3, &Settings::default())
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
