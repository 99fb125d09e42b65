//! Places the content of a block: in a block that holds it already, or in a new one. Then the LBN means that block.
//!
//! 1. Increments enter the refs page in memory at once; the commit writes the page before it writes the link (R2). In mode `log` they are
//!    kept beside the page until their commit.
//! 2. A block is linked to only if the fingerprint table, or a pending block, confirms what the index says.
//! 3. Nothing here waits: the error says what is missing ([`Blocked`]), and the caller calls again.

use crate::answers::{Answers, NamedContent};
use crate::buffer::Slice;
use crate::fingerprint::Digest;
use crate::format::entry::{FingerprintEntry, Kind, MapEntry};
use crate::interface::{Failure, Promised, RequestId};
use crate::schedule::Blocked;
use crate::scheme::Scheme;
use crate::space::PendingBlock;
use crate::store::{Comparison, DuplicateSearch, MappedSince, Store};
use crate::units::{Lbn, Pbn};

/// A whole block of a request that needs a place.
pub(super) struct Written<'a> {
    pub request: RequestId,
    pub lbn: Lbn,
    pub slice: &'a Slice,
    pub digest: Digest,
    pub compared: Comparison,
    /// The filter against fragmentation does not let it be linked to another block.
    pub is_lone: bool,
}

/// Makes the LBN mean the content that was written.
pub(super) fn link(store: &mut Store, scheme: &mut Scheme, answers: &mut Answers, written: &Written<'_>) -> Result<(), Blocked> {
    scheme.admit_records(store, 1)?;
    let &Written { request, lbn, slice, digest, compared, is_lone } = written;
    let epoch = store.tables.open.number;
    let name = match digest {
        Digest::Zero => {
            store.io.ledger.zeroes += 1;
            answers.promise(store, request, epoch, Promised::Zero { lbn });
            store.set_point(lbn, MapEntry::Zero);
            return Ok(());
        }
        Digest::Of(fingerprint) => FingerprintEntry::of(fingerprint),
        Digest::Checksum(value) => FingerprintEntry::of_checksum(value),
        Digest::Partial => return Err(Blocked::Failed(Failure::Invalid)),
    };
    let content = NamedContent { slice, name };
    if store.medium.superblock.is_protected(lbn) {
        let checksum = FingerprintEntry::of_checksum(store.keys.fingerprinter.checksum(slice.block(0)));
        return link_new(store, scheme, answers, (request, lbn), content, checksum, false);
    }
    let Digest::Of(fingerprint) = digest else {
        link_new(store, scheme, answers, (request, lbn), content, name, false)?;
        store.defer(lbn);
        return Ok(());
    };
    let found = if is_lone {
        store.find_unchanged(lbn, slice, &fingerprint, compared)?
    } else {
        store.find_duplicate(lbn, slice, &fingerprint, compared)?
    };
    match found {
        DuplicateSearch::Duplicate(pbn, slot) => {
            link_duplicate(store, scheme, answers, (request, lbn), (pbn, slot), content);
            Ok(())
        }
        DuplicateSearch::Unchanged(pbn, slot, since) => {
            store.io.ledger.unchanged += 1;
            store.index.note_duplicate(lbn, pbn, &fingerprint);
            store.adaptation.note(Some(true));
            if let MappedSince::Epoch(epoch) = since {
                answers.promise_block(store, request, epoch, lbn, (pbn, slot), content);
            }
            Ok(())
        }
        DuplicateSearch::New => {
            link_new(store, scheme, answers, (request, lbn), content, name, true)?;
            store.adaptation.note(Some(false));
            Ok(())
        }
        DuplicateSearch::Filtered => {
            match link_new(store, scheme, answers, (request, lbn), content, name, false) {
                Ok(()) => {
                    store.io.ledger.filtered += 1;
                    store.adaptation.note(Some(true));
                    Ok(())
                }
                // A link needs no room.
                Err(Blocked::Space) => link(store, scheme, answers, &Written { is_lone: false, ..*written }),
                Err(why) => Err(why),
            }
        }
    }
}

fn link_duplicate(
    store: &mut Store,
    scheme: &mut Scheme,
    answers: &mut Answers,
    (request, lbn): (RequestId, Lbn),
    (pbn, slot): (Pbn, u8),
    content: NamedContent<'_>,
) {
    store.io.ledger.duplicates += 1;
    answers.promise_block(store, request, store.tables.open.number, lbn, (pbn, slot), content);
    store.add_links(pbn, 1);
    store.set_point(lbn, MapEntry::Block { pbn, slot });
    store.also_mapped_by(pbn, lbn);
    scheme.pack_if_large(store, answers);
    store.adaptation.note(Some(true));
    store.note_duplicate(lbn, pbn, &content.name.value);
}

/// Stores the content in a new block. Its count begins at two: one link of the LBN, and one of the fingerprint (section 2.1). The index
/// has the new block from then on. `is_sought`: the work out of line is to find another block with the content, if there is one.
fn link_new(
    store: &mut Store,
    scheme: &mut Scheme,
    answers: &mut Answers,
    (request, lbn): (RequestId, Lbn),
    content: NamedContent<'_>,
    entry: FingerprintEntry,
    is_sought: bool,
) -> Result<(), Blocked> {
    let (slice, FingerprintEntry { kind, value: fingerprint }) = (content.slice, entry);
    let promised = answers.journal.contents_promised(store);
    let pbn = store.allocate(lbn, promised)?;
    store.io.ledger.new_blocks += 1;
    store.add_links(pbn, 2);
    store.tables.open.new_blocks.push(pbn);
    let epoch = store.tables.open.number;
    let held_back = scheme.hold_back(store, answers, kind, lbn, pbn, slice);
    let goes = held_back.is_none();
    let held = Some(held_back.unwrap_or_else(|| slice.clone()));
    store.space.pending.insert(pbn, PendingBlock { kind, fingerprint, epoch: epoch.0, held, waits: true });
    if kind == Kind::Fingerprint {
        store.index.insert(&fingerprint, pbn);
        if is_sought {
            store.note_new(lbn, &fingerprint);
        }
    }
    answers.promise_block(store, request, epoch, lbn, (pbn, 0), content);
    if goes {
        store.add_to_run(request, pbn, slice.clone());
    }
    scheme.epoch_has_grown(store, answers);
    store.set_point(lbn, MapEntry::Block { pbn, slot: 0 });
    scheme.pack_if_large(store, answers);
    Ok(())
}
