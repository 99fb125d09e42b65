//! What the superblock says of the log as the volume opens, closes, and goes over to mode `ordered`.

use super::blocks::Use;
use crate::engine::Engine;
use crate::format::anchor::Condensed;
use crate::settings::Compression;

impl Engine {
    /// The log is empty: `ordered` needs none. Its blocks stay its own until both pairs of copies have forgotten them: the older one would else
    /// lead to units whose places are others' by then.
    pub(super) fn leave_log(&mut self) {
        let log = self.log.as_mut().expect("only what is there is left");
        log.is_left = true;
        self.superblock.last_log_sequence = log.next - 1;
        self.superblock.anchor = None;
        self.superblock.set_log_live(false);
        self.opening_updates = 0;
        self.update_opened();
    }

    /// No superblock leads to the log any more.
    pub(super) fn forget_log(&mut self) {
        let log = self.log.take().expect("it was left");
        // What is left of carriers their counts will say; nothing has been counted yet.
        log.blocks.iter().filter(|(_, is)| **is == Use::Plain).for_each(|(&pbn, _)| self.freed(pbn));
        self.space.no_longer_busy();
    }

    /// The log is empty, and its places wait for the next opening.
    pub(crate) fn close_log_in_superblock(&mut self) {
        let Some(log) = &self.log else { return };
        let (sequence, epoch) = (log.next - 1, log.epoch);
        self.superblock.last_log_sequence = sequence;
        self.superblock.anchor = Some(self.anchor_behind(sequence, epoch, Condensed::default()));
        self.superblock.set_log_live(false);
    }

    /// What the superblock has to say of the log as the volume opens.
    pub(crate) fn open_log_in_superblock(&mut self) {
        if self.log.is_some() && self.settings.compression != Compression::Off {
            self.superblock.set_slots();
        }
        match &mut self.log {
            None => self.superblock.anchor = None,
            Some(log) if !self.superblock.is_log_live() => {
                let (sequence, epoch) = (log.next - 1, log.epoch);
                log.is_cut_off = false;
                self.superblock.anchor = Some(self.anchor_behind(sequence, epoch, Condensed::default()));
                self.superblock.set_log_live(true);
            }
            Some(_) => {
                if let (Some(barrier), Some(anchor)) = (self.barrier(), &mut self.superblock.anchor) {
                    anchor.barrier = Some(barrier);
                }
            }
        }
    }
}
