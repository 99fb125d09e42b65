//! A volume as its owner sees it.

use super::Volume;
use crate::hints::Hints;
use crate::runtime::codec::Codec;
use crate::runtime::condition::{Condition, Counts, memory, reason, state, state_on};
use crate::runtime::links::PBNS_MAX;
use crate::runtime::lived::Lived;
use crate::runtime::promises::Promises;
use crate::runtime::recording::tap::Tap;
use crate::runtime::streams;
use crate::runtime::volume_counts::{self, VolumeCounts};
use crate::runtime::{Closing, Served};
use crate::target::SharedTarget;
use onefold_engine::interface::Event;
use onefold_engine::units::{Pbn, count};
use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, PoisonError};

impl Served for Volume {
    fn target(self: Arc<Self>) -> SharedTarget {
        self
    }

    fn order(&self, order: Event) {
        self.feed(&mut vec![order], Vec::new());
    }

    fn make_journal_again(&self) -> io::Result<()> {
        self.core().promises.as_mut().map_or(Ok(()), Promises::make_again)
    }

    fn close(&self) -> Closing {
        self.pool.close();
        self.feed(&mut vec![Event::Close], Vec::new());
        let core = self.closed.wait_while(self.core(), |core| core.closed.is_none()).unwrap_or_else(PoisonError::into_inner);
        let closing = match core.closed {
            Some(true) if core.engine.owes_word_of_loss() => Closing::Lossy,
            Some(true) => Closing::Clean,
            _ => Closing::Failed,
        };
        drop(core);
        self.timer.stop();
        self.layouts.stop();
        self.codec.iter().for_each(Codec::stop);
        self.device.stop();
        closing
    }

    fn condition(&self) -> Condition {
        let stats = self.core().engine.stats();
        let store = self.device.place();
        Condition {
            pid: std::process::id(),
            state: state_on(store.as_ref(), state(&stats)),
            reason: reason(&stats),
            bytes: self.info.bytes,
            io: self.device.method(),
            slowed: self.device.slowed(),
            guard: None,
            adaptation: self.selection.report(&stats.adaptation),
            memory: memory(self.pool.accountant()),
            pool_bytes: count(self.pool.bytes()),
            notices: self.notices.all(volume_counts::used_percent(&stats)),
            store,
        }
    }

    fn counts(&self) -> Counts {
        let stats = self.core().engine.stats();
        let hints = self.hints.counts();
        Counts {
            client: self.client.counts(),
            latencies: self.latencies.all(),
            device: volume_counts::device(&stats.ledger),
            failed: self.failed.counts(),
            damage: self.notices.damage(),
            lifetime: Some(Lived::of(&stats.lifetime)),
            volume: Some(VolumeCounts::of(&stats, self.notices.recounted_blocks())),
            streams: streams::named(&stats.ledger.streams, &hints.streams),
            hints: Some(hints),
            protection: Some(self.layouts.protection()),
        }
    }

    fn damaged(&self) -> BTreeSet<u64> {
        self.core().engine.suspects().take(PBNS_MAX).map(Pbn::get).collect()
    }

    fn hints(&self) -> Option<&Arc<Hints>> {
        Some(&self.hints)
    }

    fn tap(&self) -> &Arc<Tap> {
        &self.tap
    }
}
