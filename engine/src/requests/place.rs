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
use crate::ledger::Placed;
use crate::policy::{Policy, Stream};
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
    /// The policy that its request brings.
    pub policy: Policy,
    /// The filter against fragmentation does not let it be linked to another block.
    pub is_lone: bool,
}

/// Makes the LBN mean the content that was written.
pub(super) fn link(store: &mut Store, scheme: &mut Scheme, answers: &mut Answers, written: &Written<'_>) -> Result<(), Blocked> {
    scheme.admit_records(&mut store.pool, 1)?;
    let &Written { request, lbn, slice, digest, compared, policy, is_lone } = written;
    let (epoch, policy) = (store.pool.tables.open.number, store.pool.medium.policy_of(lbn, policy));
    let name = match digest {
        Digest::Zero => {
            store.pool.io.ledger.placed(policy.stream(), Placed::Zero);
            answers.promise(&mut store.pool, request, epoch, Promised::Zero { lbn });
            store.pool.set_point(lbn, MapEntry::Zero);
            return Ok(());
        }
        Digest::Of(fingerprint) => FingerprintEntry::of(fingerprint),
        Digest::Checksum(value) => FingerprintEntry::of_checksum(value),
        Digest::Partial => return Err(Blocked::Failed(Failure::Invalid)),
    };
    let content = NamedContent { slice, name };
    let new = New { request, lbn, entry: name, policy, is_sought: false };
    if policy.is_apart() {
        let checksum = match digest {
            Digest::Checksum(checksum) => checksum,
            _ => store.pool.keys.fingerprinter.checksum(slice.block(0)),
        };
        let entry = store.pool.medium.entry_apart(checksum);
        return link_new(store, scheme, answers, content, New { entry, ..new });
    }
    let Digest::Of(fingerprint) = digest else {
        link_new(store, scheme, answers, content, new)?;
        store.defer(lbn);
        return Ok(());
    };
    let found = if is_lone {
        store.pool.find_unchanged(lbn, slice, &fingerprint, compared)?
    } else {
        store.pool.find_duplicate(lbn, slice, &fingerprint, compared)?
    };
    match found {
        DuplicateSearch::Duplicate(pbn, slot) => {
            link_duplicate(store, scheme, answers, (request, lbn, policy.stream()), (pbn, slot), content);
            Ok(())
        }
        DuplicateSearch::Unchanged(pbn, slot, since) => {
            store.pool.io.ledger.placed(policy.stream(), Placed::Unchanged);
            store.pool.index.note_duplicate(lbn, pbn, &fingerprint);
            store.volume.adaptation.note(Some(true));
            if let MappedSince::Epoch(epoch) = since {
                answers.promise_block(&mut store.pool, request, epoch, lbn, (pbn, slot), content);
            }
            Ok(())
        }
        DuplicateSearch::New => {
            link_new(store, scheme, answers, content, New { is_sought: true, ..new })?;
            store.volume.adaptation.note(Some(false));
            Ok(())
        }
        DuplicateSearch::Filtered => {
            match link_new(store, scheme, answers, content, new) {
                Ok(()) => {
                    store.pool.io.ledger.filtered();
                    store.volume.adaptation.note(Some(true));
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
    (request, lbn, stream): (RequestId, Lbn, Stream),
    (pbn, slot): (Pbn, u8),
    content: NamedContent<'_>,
) {
    store.pool.io.ledger.placed(stream, Placed::Duplicate);
    if store.pool.prefetched.found(&content.name.value, pbn) {
        // It may come more often than once, and its entry is gone.
        store.pool.index.insert(&content.name.value, pbn);
    }
    let epoch = store.pool.tables.open.number;
    answers.promise_block(&mut store.pool, request, epoch, lbn, (pbn, slot), content);
    store.pool.space.add_links(&mut store.pool.io, &mut store.pool.tables, pbn, 1);
    store.pool.set_point(lbn, MapEntry::Block { pbn, slot });
    store.pool.also_mapped_by(pbn, lbn);
    scheme.pack_if_large(&mut store.pool, answers);
    store.volume.adaptation.note(Some(true));
    store.note_duplicate(lbn, pbn, &content.name.value);
}

/// A block that is to be stored as new.
#[derive(Clone, Copy)]
struct New {
    request: RequestId,
    lbn: Lbn,
    entry: FingerprintEntry,
    policy: Policy,
    /// The work out of line is to find another block with the content, if there is one.
    is_sought: bool,
}

/// Stores the content in a new block. Its count begins at two: one link of the LBN, and one of the fingerprint (section 2.1). The index
/// has the new block from then on, if its policy does not keep it out.
fn link_new(store: &mut Store, scheme: &mut Scheme, answers: &mut Answers, content: NamedContent<'_>, new: New) -> Result<(), Blocked> {
    let New { request, lbn, entry: FingerprintEntry { kind, value: fingerprint }, policy, is_sought } = new;
    let slice = content.slice;
    let promised = answers.journal.contents_promised(&store.pool.io, &store.pool.tables);
    let pbn = store.pool.allocate(lbn, policy.stream(), promised)?;
    store.pool.io.ledger.placed(policy.stream(), Placed::New);
    store.pool.space.add_links(&mut store.pool.io, &mut store.pool.tables, pbn, 2);
    store.pool.tables.open.new_blocks.push(pbn);
    let epoch = store.pool.tables.open.number;
    let may_compress = kind == Kind::Fingerprint && policy.compresses();
    let held_back = if may_compress { scheme.hold_back(&mut store.pool, answers, lbn, pbn, slice, policy) } else { None };
    let goes = held_back.is_none();
    let held = Some(held_back.unwrap_or_else(|| slice.clone()));
    store.pool.space.pending.insert(pbn, PendingBlock { kind, fingerprint, epoch: epoch.0, held, waits: true });
    if kind == Kind::Fingerprint {
        if policy.is_indexed() {
            store.pool.index.insert(&fingerprint, pbn);
        } else {
            store.pool.index.left_out(&fingerprint);
        }
        if is_sought {
            store.note_new(lbn, pbn, &fingerprint);
        }
    }
    answers.promise_block(&mut store.pool, request, epoch, lbn, (pbn, 0), content);
    if goes {
        store.pool.add_to_run(request, pbn, slice.clone());
    }
    scheme.epoch_has_grown(&mut store.pool, answers);
    store.pool.set_point(lbn, MapEntry::Block { pbn, slot: 0 });
    scheme.pack_if_large(&mut store.pool, answers);
    Ok(())
}
