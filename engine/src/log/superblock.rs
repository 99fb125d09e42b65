//! What the superblock says of the log as the volume opens, closes, and goes over to mode `ordered`.

use crate::engine::Engine;
use crate::format::anchor::Condensed;
use crate::settings::Compression;

impl Engine {
    /// The log is empty: `ordered` needs none. Its blocks stay its own until both pairs of copies have forgotten them: the older one would else
    /// lead to units whose places are others' by then.
    pub(super) fn leave_log(&mut self) {
        let log = self.scheme.log.as_mut().expect("only what is there is left");
        log.is_left = true;
        self.store.medium.superblock.last_log_sequence = log.next - 1;
        self.store.medium.superblock.anchor = None;
        self.store.medium.superblock.set_log_live(false);
        self.recovery.updates = 0;
        self.update_opened();
    }

    /// No superblock leads to the log any more.
    pub(super) fn forget_log(&mut self) {
        self.scheme.log = None;
        self.store.tables.committed = None;
        self.store.space.scheme_is_gone();
    }

    /// The log is empty, and its places wait for the next opening.
    pub(crate) fn close_log_in_superblock(&mut self) {
        let Some(log) = &self.scheme.log else { return };
        let (sequence, epoch) = (log.next - 1, self.store.tables.committed().epoch);
        self.store.medium.superblock.last_log_sequence = sequence;
        self.store.medium.superblock.anchor = Some(self.anchor_behind(sequence, epoch, Condensed::default()));
        self.store.medium.superblock.set_log_live(false);
    }

    /// What the superblock has to say of the log as the volume opens.
    pub(crate) fn open_log_in_superblock(&mut self) {
        if self.scheme.log.is_some() && self.store.settings.compression != Compression::Off {
            self.store.medium.superblock.set_slots();
        }
        match &mut self.scheme.log {
            None => self.store.medium.superblock.anchor = None,
            Some(log) if !self.store.medium.superblock.is_log_live() => {
                let (sequence, epoch) = (log.next - 1, self.store.tables.committed().epoch);
                log.is_cut_off = false;
                self.store.medium.superblock.anchor = Some(self.anchor_behind(sequence, epoch, Condensed::default()));
                self.store.medium.superblock.set_log_live(true);
            }
            Some(_) => {
                if let (Some(barrier), Some(anchor)) = (self.barrier(), &mut self.store.medium.superblock.anchor) {
                    anchor.barrier = Some(barrier);
                }
            }
        }
    }
}
