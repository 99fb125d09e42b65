//! The search for blocks whose links or entries cannot stay.

use super::cut::Cut;
use super::entries::entry_of;
use super::error::RepairError;
use super::fates::{Carrier, FATE_BYTES, Fates};
use super::links::Reliable;
use crate::buffer::BufferMut;
use crate::check::{CheckSettings, Content, Counts, Finding, Links, Look, ReadMedium, Scan, Teller, Windows, groups};
use crate::format::{FingerprintEntry, Kind, Region, Superblock, unit};
use crate::units::{Pbn, count, index};
use std::collections::BTreeMap;
use std::ops::Range;

/// Looks at each block that has links or an entry: at its content where the settings or the cut of a log want that, or where nothing else
/// says what it is.
pub(super) fn find<M: ReadMedium>(
    medium: &mut M,
    superblock: &Superblock,
    cut: Option<&Cut>,
    settings: &CheckSettings,
    teller: &mut Teller,
) -> Result<Fates, RepairError> {
    let nothing = Fates::default();
    let all = Reliable { superblock, cut, fates: &nothing };
    let proof = match cut {
        Some(_) => Proof::Needed,
        None if settings.data => Proof::Read,
        None => Proof::Believed,
    };
    let (mut fates, mut scan) = (Fates::default(), all.scan(medium, 16));
    let most = index(settings.memory_bytes / 4 / FATE_BYTES);
    for window in Windows::new(superblock.geometry.data_blocks, settings.memory_bytes).iter() {
        let links = all.count(&mut scan, teller, &window);
        for group in groups(&window) {
            let of_group = &links[index(group.start - window.start)..index(group.end - window.start)];
            Suspects::of(&mut scan, superblock, &group, of_group, proof, teller).judge(&mut scan, superblock, &mut fates);
            if fates.number() > most {
                return Err(RepairError::TooMuch { blocks: most });
            }
        }
    }
    Ok(fates)
}

/// The part of an entry in the proof of a block's content.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// The entry is believed.
    Believed,
    /// The content is read, and has to be what the entry says.
    Read,
    /// Besides, links stay only to content that an entry says something of.
    Needed,
}

/// The blocks of a page of counts that are not what their links want, or have to be looked at.
struct Suspects {
    /// Links mean these, and nothing says what they hold.
    unproved: Vec<Pbn>,
    /// Links mean these carriers as a whole.
    linked_as_a_whole: Vec<Pbn>,
    /// Links mean slots of these, and their entries do not say that they are carriers.
    unnamed: Vec<Pbn>,
    /// These have entries to compare them with.
    named: Content,
    /// The entries of carriers among those.
    carriers: BTreeMap<Pbn, FingerprintEntry>,
}

impl Suspects {
    fn of(scan: &mut Scan, superblock: &Superblock, group: &Range<u64>, links: &[Links], proof: Proof, teller: &mut Teller) -> Self {
        let per_page = Region::Fingerprints.entries_per_page();
        let (unproved, linked_as_a_whole, unnamed) = (Vec::new(), Vec::new(), Vec::new());
        let mut found = Self { unproved, linked_as_a_whole, unnamed, named: Content::new(superblock, 16), carriers: BTreeMap::new() };
        let pages = group.start / per_page..group.end.div_ceil(per_page);
        scan.pages(Region::Fingerprints, pages, Look::Again, teller, &mut |_, id, opened| {
            let blocks = (0..index(per_page)).map(|i| (i, superblock.geometry.first_pbn(id) + count(i)));
            for (i, pbn) in blocks.filter(|(_, pbn)| group.contains(&pbn.get())) {
                let links = links[index(pbn.get() - group.start)];
                let entry = entry_of(superblock, id, opened, i);
                let is_described = entry.is_some_and(|entry| !entry.is_none());
                if proof == Proof::Needed && links.number() > 0 && !is_described {
                    found.unproved.push(pbn);
                    continue;
                }
                match entry.is_some_and(|entry| entry.kind == Kind::Carrier) {
                    true if links.whole() => found.linked_as_a_whole.push(pbn),
                    false if links.slot_max() > 0 => found.unnamed.push(pbn),
                    _ => {}
                }
                if let Some(entry) = entry.filter(|entry| proof != Proof::Believed && !entry.is_none()) {
                    found.named.add(pbn, entry, links.slot_max());
                    found.carriers.extend(Some((pbn, entry)).filter(|_| entry.kind == Kind::Carrier));
                }
            }
        });
        found
    }

    /// Looks at those that have to be looked at, and decides.
    fn judge(mut self, scan: &mut Scan, superblock: &Superblock, fates: &mut Fates) {
        self.unproved.iter().for_each(|&pbn| fates.lose(pbn));
        self.linked_as_a_whole.iter().for_each(|&pbn| fates.of(pbn).loses_whole = true);
        for pbn in self.unnamed {
            match carrier(scan, superblock, pbn) {
                Some(carrier) => fates.be(pbn, carrier),
                None => fates.of(pbn).slots = Some(0),
            }
        }
        for pbn in differing(&mut self.named, scan, superblock) {
            // It may be a carrier, whatever its entry says; or the one of its entry, and a link means a slot that it does not have.
            let wanted = fates.entry(pbn).or(self.carriers.get(&pbn).copied());
            match carrier(scan, superblock, pbn).filter(|carrier| wanted == Some(carrier.entry)) {
                Some(carrier) => fates.be(pbn, carrier),
                None => fates.lose(pbn),
            }
        }
    }
}

/// The blocks that do not hold what was added, or cannot be read.
fn differing(content: &mut Content, scan: &mut Scan, superblock: &Superblock) -> Vec<Pbn> {
    let mut found = Vec::new();
    let mut note = |finding| match finding {
        Finding::ContentDiffers { pbn } | Finding::UnreadableBlock { pbn } => found.push(pbn),
        _ => {}
    };
    content.compare(scan, &superblock.geometry, &mut Counts::default(), &mut Teller::new(&mut note, 0));
    found
}

/// The carrier that a block holds, if it holds one.
fn carrier(scan: &mut Scan, superblock: &Superblock, pbn: Pbn) -> Option<Carrier> {
    let mut block = BufferMut::zeroed(1);
    scan.read(superblock.geometry.block_at(pbn), block.bytes_mut()).ok()?;
    let entry = FingerprintEntry { kind: Kind::Carrier, value: unit::claims(block.block(0)) };
    let slots = unit::slots(block.block(0)).and_then(|slots| u8::try_from(slots.len()).ok()).filter(|&slots| slots > 0)?;
    let mut content = Content::new(superblock, 1);
    content.add(pbn, entry, slots);
    differing(&mut content, scan, superblock).is_empty().then_some(Carrier { entry, slots })
}
