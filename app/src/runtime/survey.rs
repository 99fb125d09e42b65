//! Surveys of the file systems on a volume that is served: what they keep twice on purpose is protected.
//!
//! 1. A survey reads the volume as a client would: when its server begins, and when a write may have changed what the last survey found.
//! 2. A write of a superblock may not have arrived when the survey reads its block. So after the last change there are two surveys, the
//!    second when everything has long arrived.
//! 3. Rules may have blocks protected, too: what they say is a part of each survey, and a change of theirs brings one.
//! 4. The engine learns the ranges by an order. It changes nothing where they are as before.

use super::layouts::Layouts;
use super::volume::Volume;
use onefold_engine::format::ProtectedRange;
use onefold_engine::interface::Event;
use onefold_engine::layouts::{Step, Survey};
use onefold_engine::units::{Blocks, Lbn};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The time from the last change to the first survey, and to the second.
const SOON: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];
/// The longest time that a survey waits for a block: a full volume may keep it waiting for long.
const PATIENCE: Duration = Duration::from_secs(30);

/// Has the layouts of a volume surveyed, as long as it is served. `owned`: the ranges that were protected when it was made.
pub fn begin(volume: &Arc<Volume>, owned: Vec<ProtectedRange>) {
    let follower = Arc::downgrade(volume.layouts());
    volume.known().follow(move || follower.upgrade().iter().for_each(|layouts| layouts.look_anew()));
    let (layouts, volume) = (volume.layouts().clone(), Arc::downgrade(volume));
    let begun = std::thread::Builder::new().name("layouts".to_owned()).spawn(move || watch(&volume, &layouts, &owned));
    begun.map(drop).unwrap_or_else(|error| tracing::warn!(%error, "file systems are not looked for: there is no thread for it"));
}

fn watch(volume: &Weak<Volume>, layouts: &Layouts, owned: &[ProtectedRange]) {
    survey(volume, layouts, owned);
    while let Some(change) = layouts.next_change() {
        for soon in SOON {
            if !layouts.wait_until(change + soon) {
                return;
            }
            survey(volume, layouts, owned);
        }
        layouts.surveyed(change);
    }
}

/// Surveys the volume once, and has protected what it finds.
fn survey(volume: &Weak<Volume>, layouts: &Layouts, owned: &[ProtectedRange]) {
    let Some(blocks) = volume.upgrade().map(|volume| volume.blocks()) else { return };
    let mut survey = Survey::begin(Blocks(blocks));
    let mut layout = loop {
        match survey.step() {
            Step::Done(layout) => break layout,
            Step::Read(lbn) => {
                let Some(volume) = volume.upgrade() else { return };
                match volume.read_block(lbn, PATIENCE) {
                    Some(block) => survey.take(&block),
                    None => survey.take_none(),
                }
            }
        }
    };
    let Some(rules) = volume.upgrade().map(|volume| volume.known().protected()) else { return };
    rules.iter().for_each(|range| layout.ask_for(Lbn(range.first)..Lbn(range.end)));
    let Some(ranges) = layouts.take(&layout, owned) else { return };
    if let Some(volume) = volume.upgrade() {
        volume.feed(&mut vec![Event::Protect(ranges)], Vec::new());
    }
}
