//! The search for blocks whose links or entries cannot stay.

use super::entries::entry_of;
use super::error::RepairError;
use super::fates::{Carrier, FATE_BYTES, Fates};
use super::links::{Reliable, group_of, windows};
use crate::buffer::BufferMut;
use crate::check::{CheckSettings, Content, Counts, Finding, Look, ReadMedium, Scan, Teller};
use crate::format::{FingerprintEntry, Kind, Region, Superblock, unit};
use crate::units::{Pbn, count, index};

/// Looks at each block that has links or an entry: at its content where the settings want that, or where nothing else says what it is.
pub(super) fn find<M: ReadMedium>(
    medium: &mut M,
    superblock: &Superblock,
    settings: &CheckSettings,
    teller: &mut Teller,
) -> Result<Fates, RepairError> {
    let blocks = superblock.geometry.data_blocks;
    let nothing = Fates::default();
    let all = Reliable { geometry: &superblock.geometry, has_slots: superblock.has_slots(), fates: &nothing };
    let (mut fates, mut scan) = (Fates::default(), Scan::new(medium, superblock, 16));
    let most = index(settings.memory_bytes / 4 / FATE_BYTES);
    for window in windows(blocks, settings.memory_bytes) {
        let links = all.count(&mut scan, teller, &window);
        for first in window.clone().step_by(index(Region::Refs.entries_per_page())) {
            let group = group_of(first, blocks);
            let (mut named, mut carriers, mut unnamed) = (Content::new(superblock, 16), Vec::new(), Vec::new());
            let pages = group.start / Region::Fingerprints.entries_per_page()..group.end.div_ceil(Region::Fingerprints.entries_per_page());
            scan.pages(Region::Fingerprints, pages, Look::Again, teller, &mut |_, id, opened| {
                for i in 0..index(Region::Fingerprints.entries_per_page()) {
                    let pbn = superblock.geometry.first_pbn(id) + count(i);
                    if !group.contains(&pbn.get()) {
                        continue;
                    }
                    let links = links[index(pbn.get() - window.start)];
                    let entry = entry_of(superblock, id, opened, i);
                    let is_carrier = entry.is_some_and(|entry| entry.kind == Kind::Carrier);
                    if links.whole() && is_carrier {
                        fates.of(pbn).loses_whole = true;
                    }
                    if links.slot_max() > 0 && !is_carrier {
                        unnamed.push(pbn);
                    }
                    if let Some(entry) = entry.filter(|entry| settings.data && !entry.is_none()) {
                        named.add(pbn, entry, links.slot_max());
                        carriers.extend(is_carrier.then_some((pbn, entry)));
                    }
                }
            });
            for pbn in unnamed {
                match carrier(&mut scan, superblock, pbn) {
                    Some(carrier) => fates.be(pbn, carrier),
                    None => fates.of(pbn).slots = Some(0),
                }
            }
            for pbn in differing(&mut named, &mut scan, superblock) {
                match carrier(&mut scan, superblock, pbn) {
                    // It is whole, but a link means a slot that it does not have; or it is a carrier, whatever its entry says.
                    Some(carrier) if carriers.contains(&(pbn, carrier.entry)) || fates.entry(pbn) == Some(carrier.entry) => {
                        fates.be(pbn, carrier)
                    }
                    _ => fates.lose(pbn),
                }
            }
            if fates.number() > most {
                return Err(RepairError::TooMuch { blocks: most });
            }
        }
    }
    Ok(fates)
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
