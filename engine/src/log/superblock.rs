//! What the superblock says of the log as the volume opens, closes, and goes over to mode `ordered`.

use crate::engine::Engine;

impl Engine {
    /// The log is empty: `ordered` needs none.
    pub(super) fn leave_log(&mut self) {
        self.forget_log();
        // In both pairs: the older one would else lead to units whose places are others' by then.
        self.opening_updates = 0;
        self.update_opened();
    }

    /// What a superblock without a log says.
    fn forget_log(&mut self) {
        if let Some(log) = self.log.take() {
            self.superblock.last_log_sequence = log.next - 1;
            self.space.of_log = 0;
            log.blocks.keys().for_each(|&pbn| self.freed(pbn));
            self.space.no_longer_busy();
        }
        self.superblock.anchor = None;
        self.superblock.set_log_live(false);
    }

    /// The log is empty, and its places wait for the next opening.
    pub(crate) fn close_log_in_superblock(&mut self) {
        let Some(log) = &self.log else { return };
        let (sequence, epoch) = (log.next - 1, log.epoch);
        self.superblock.last_log_sequence = sequence;
        self.superblock.anchor = Some(self.anchor_behind(sequence, epoch));
        self.superblock.set_log_live(false);
    }

    /// What the superblock has to say of the log as the volume opens.
    pub(crate) fn open_log_in_superblock(&mut self) {
        match &self.log {
            None => self.superblock.anchor = None,
            Some(log) if !self.superblock.is_log_live() => {
                let (sequence, epoch) = (log.next - 1, log.epoch);
                self.superblock.anchor = Some(self.anchor_behind(sequence, epoch));
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
