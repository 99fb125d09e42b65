//! A volume as its owner sees it.

use super::Volume;
use crate::runtime::codec::Codec;
use crate::runtime::condition::{Condition, Counts, memory, state};
use crate::runtime::lived::Lived;
use crate::runtime::recording::tap::Tap;
use crate::runtime::volume_counts::{self, VolumeCounts};
use crate::runtime::{Closing, Served};
use crate::target::SharedTarget;
use onefold_engine::interface::Event;
use onefold_engine::units::count;
use std::sync::{Arc, PoisonError};

impl Served for Volume {
    fn target(self: Arc<Self>) -> SharedTarget {
        self
    }

    fn order(&self, order: Event) {
        self.feed(&mut vec![order], Vec::new());
    }

    fn close(&self) -> Closing {
        self.pool.close();
        self.feed(&mut vec![Event::Close], Vec::new());
        let core = self.closed.wait_while(self.core(), |core| core.closed.is_none()).unwrap_or_else(PoisonError::into_inner);
        let clean = core.closed == Some(true);
        drop(core);
        self.timer.stop();
        self.codec.iter().for_each(Codec::stop);
        self.device.stop();
        if clean { Closing::Clean } else { Closing::Failed }
    }

    fn condition(&self) -> Condition {
        let stats = self.core().engine.stats();
        Condition {
            pid: std::process::id(),
            state: state(&stats),
            bytes: self.info.bytes,
            io: self.device.method(),
            slowed: self.device.slowed(),
            guard: None,
            adaptation: self.selection.report(&stats.adaptation),
            memory: memory(self.pool.accountant()),
            pool_bytes: count(self.pool.bytes()),
            notices: self.notices.all(volume_counts::used_percent(&stats)),
            store: self.device.place(),
        }
    }

    fn counts(&self) -> Counts {
        let stats = self.core().engine.stats();
        Counts {
            client: self.client.counts(),
            device: volume_counts::device(&stats.ledger),
            lifetime: Some(Lived::of(&stats.lifetime)),
            volume: Some(VolumeCounts::of(&stats, self.notices.recounted_blocks())),
        }
    }

    fn tap(&self) -> &Arc<Tap> {
        &self.tap
    }
}
