//! Places the content of a block: in a block that holds it already, or in a new one. Then the LBN means that block.
//!
//! 1. Increments enter the refs page in memory at once; the commit writes the page before it writes the link (R2). In mode `log` they are
//!    kept beside the page until their commit.
//! 2. A block is linked to only if the fingerprint table, or a pending block, confirms what the index says.
//! 3. Nothing here waits: the error says what is missing ([`Blocked`]), and the caller calls again.

use crate::ack_journal::NamedContent;
use crate::answers::Answers;
use crate::buffer::Slice;
use crate::fingerprint::Digest;
use crate::format::entry::{FingerprintEntry, Kind, MapEntry};
use crate::interface::{Failure, Promised, RequestId};
use crate::ledger::Placed;
use crate::policy::{Policy, Stream};
use crate::pool::{Comparison, DuplicateSearch, MappedSince, Parts};
use crate::schedule::Blocked;
use crate::scheme::Scheme;
use crate::space::PendingBlock;
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
pub(super) fn link(parts: &mut Parts, scheme: &mut Scheme, answers: &mut Answers, written: &Written<'_>) -> Result<(), Blocked> {
    scheme.admit_records(&mut parts.pool, 1)?;
    let &Written { request, lbn, slice, digest, compared, policy, is_lone } = written;
    let (epoch, policy) = (parts.pool.tables.open.number, parts.pool.medium.policy_of(lbn, policy));
    let name = match digest {
        Digest::Zero => {
            parts.pool.io.ledger.placed(policy.stream(), Placed::Zero);
            answers.promise(&mut parts.pool, request, epoch, Promised::Zero { lbn });
            parts.pool.set_point(lbn, MapEntry::Zero);
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
            _ => parts.pool.keys.fingerprinter.checksum(slice.block(0)),
        };
        let entry = parts.pool.medium.entry_apart(checksum);
        return link_new(parts, scheme, answers, content, New { entry, ..new });
    }
    let Digest::Of(fingerprint) = digest else {
        link_new(parts, scheme, answers, content, new)?;
        parts.defer(lbn);
        return Ok(());
    };
    let found = if is_lone {
        parts.pool.find_unchanged(lbn, slice, &fingerprint, compared)?
    } else {
        parts.pool.find_duplicate(lbn, slice, &fingerprint, compared)?
    };
    match found {
        DuplicateSearch::Duplicate(pbn, slot) => {
            link_duplicate(parts, scheme, answers, (request, lbn, policy.stream()), (pbn, slot), content);
            Ok(())
        }
        DuplicateSearch::Unchanged(pbn, slot, since) => {
            parts.pool.io.ledger.placed(policy.stream(), Placed::Unchanged);
            parts.pool.index.note_duplicate(lbn, pbn, &fingerprint);
            parts.volume.adaptation.note(Some(true));
            if let MappedSince::Epoch(epoch) = since {
                answers.promise_block(&mut parts.pool, request, epoch, lbn, (pbn, slot), content);
            }
            Ok(())
        }
        DuplicateSearch::New => {
            link_new(parts, scheme, answers, content, New { is_sought: true, ..new })?;
            parts.volume.adaptation.note(Some(false));
            Ok(())
        }
        DuplicateSearch::Filtered => {
            match link_new(parts, scheme, answers, content, new) {
                Ok(()) => {
                    parts.pool.io.ledger.filtered();
                    parts.volume.adaptation.note(Some(true));
                    Ok(())
                }
                // A link needs no room.
                Err(Blocked::Space) => link(parts, scheme, answers, &Written { is_lone: false, ..*written }),
                Err(why) => Err(why),
            }
        }
    }
}

fn link_duplicate(
    parts: &mut Parts,
    scheme: &mut Scheme,
    answers: &mut Answers,
    (request, lbn, stream): (RequestId, Lbn, Stream),
    (pbn, slot): (Pbn, u8),
    content: NamedContent<'_>,
) {
    parts.pool.io.ledger.placed(stream, Placed::Duplicate);
    if parts.pool.prefetched.found(&content.name.value, pbn) {
        // It may come more often than once, and its entry is gone.
        parts.pool.index.insert(&content.name.value, pbn);
    }
    let epoch = parts.pool.tables.open.number;
    answers.promise_block(&mut parts.pool, request, epoch, lbn, (pbn, slot), content);
    parts.pool.space.add_links(&mut parts.pool.io, &mut parts.pool.tables, pbn, 1);
    parts.pool.set_point(lbn, MapEntry::Block { pbn, slot });
    parts.pool.also_mapped_by(pbn, lbn);
    scheme.pack_if_large(&mut parts.pool, answers);
    parts.volume.adaptation.note(Some(true));
    parts.note_duplicate(lbn, pbn, &content.name.value);
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
fn link_new(parts: &mut Parts, scheme: &mut Scheme, answers: &mut Answers, content: NamedContent<'_>, new: New) -> Result<(), Blocked> {
    let New { request, lbn, entry: FingerprintEntry { kind, value: fingerprint }, policy, is_sought } = new;
    let slice = content.slice;
    let promised = answers.ack_journal.contents_promised(&parts.pool.io, &parts.pool.tables);
    let pbn = parts.pool.allocate(lbn, policy.stream(), promised)?;
    parts.pool.io.ledger.placed(policy.stream(), Placed::New);
    parts.pool.space.add_links(&mut parts.pool.io, &mut parts.pool.tables, pbn, 2);
    parts.pool.tables.open.new_blocks.push(pbn);
    let epoch = parts.pool.tables.open.number;
    let may_compress = kind == Kind::Fingerprint && policy.compresses();
    let held_back = if may_compress { scheme.hold_back(&mut parts.pool, answers, lbn, pbn, slice, policy) } else { None };
    let goes = held_back.is_none();
    let held = Some(held_back.unwrap_or_else(|| slice.clone()));
    parts.pool.space.pending.insert(pbn, PendingBlock { kind, fingerprint, epoch: epoch.0, content: held, waits: true });
    if kind == Kind::Fingerprint {
        if policy.is_indexed() {
            parts.pool.index.insert(&fingerprint, pbn);
        } else {
            parts.pool.index.left_out(&fingerprint);
        }
        if is_sought {
            parts.note_new(lbn, pbn, &fingerprint);
        }
    }
    answers.promise_block(&mut parts.pool, request, epoch, lbn, (pbn, 0), content);
    if goes {
        parts.pool.add_to_run(request, pbn, slice.clone());
    }
    scheme.epoch_has_grown(&mut parts.pool, answers);
    parts.pool.set_point(lbn, MapEntry::Block { pbn, slot: 0 });
    scheme.pack_if_large(&mut parts.pool, answers);
    Ok(())
}
