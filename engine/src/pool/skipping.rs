//! Content of which the index did not say whether it is stored: its LBNs wait for the work out of line.

use super::Parts;
use crate::fingerprint::Fingerprint;
use crate::units::{Lbn, Pbn};

impl Parts {
    /// Notes that an LBN has new content in this block, which may be stored elsewhere all the same if the index is not whole.
    pub fn note_new(&mut self, lbn: Lbn, pbn: Pbn, fp: &Fingerprint) {
        if !self.pool.index.is_whole_for(fp) || self.volume.to_compare.has_unnamed() {
            self.pool.index.doubt(fp);
            self.skip(lbn, pbn, fp);
        }
    }

    /// Notes that an LBN has the content of a stored block, which may be stored elsewhere, too, if the block is doubtful.
    pub fn note_duplicate(&mut self, lbn: Lbn, pbn: Pbn, fp: &Fingerprint) {
        if self.pool.index.note_duplicate(lbn, pbn, fp) {
            self.skip(lbn, pbn, fp);
        }
    }

    /// Notes that an LBN has content that was deferred: it may be stored elsewhere.
    pub fn defer(&mut self, lbn: Lbn) {
        self.pool.io.ledger.deferred();
        self.volume.adaptation.note(None);
        if self.volume.skipped.add_unnamed(lbn, self.pool.io.now()) {
            self.volume.to_compare.defer(&mut self.pool.medium.superblock, lbn, self.pool.io.now());
        }
    }

    fn skip(&mut self, lbn: Lbn, pbn: Pbn, fp: &Fingerprint) {
        if self.volume.skipped.add(lbn, fp, pbn, self.pool.io.now()) {
            self.volume.to_compare.skip(&mut self.pool.medium.superblock, lbn, self.pool.io.now());
        }
    }
}
