//! The notices of a volume to its owner: logged, and kept for `status` for as long as they are true.

use super::hook::{Hook, Level, Warning};
use super::messages::{KEPT_MAX, Message};
use super::scrub_counts;
use super::warnings;
use crate::names::Named;
use crate::output::size::Size;
use onefold_engine::interface::Notice;
use onefold_engine::stats::{Progress, Unpacked};
use onefold_engine::units::BLOCK_BYTES;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The beginning of a line that reports the progress of an opening.
pub const OPENING: &str = "opening:";

/// A notice, and its kind, which decides until when it is true.
#[derive(Clone, Debug)]
struct Kept {
    message: Message,
    about: About,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    /// An event.
    Event,
    /// The progress of an opening: true until the volume serves, and only the newest.
    Opening,
    /// The volume is full, or its store: true until there is room again.
    Full,
    /// The fill level of a thin volume: true while it is as full, and only the newest.
    Filling { percent: u64 },
}

impl About {
    const fn of(notice: &Notice) -> Self {
        match notice {
            Notice::Opening(_) => Self::Opening,
            Notice::Full { .. } | Notice::NoSpace { .. } => Self::Full,
            Notice::Filling { percent, .. } => Self::Filling { percent: *percent },
            _ => Self::Event,
        }
    }

    /// Whether this notice ends the truth of `before`.
    fn ends(self, notice: &Notice, before: Self) -> bool {
        match before {
            Self::Event => false,
            Self::Opening => self == Self::Opening || matches!(notice, Notice::Serving),
            Self::Full => matches!(notice, Notice::RoomAgain),
            Self::Filling { .. } => matches!(self, Self::Filling { .. }),
        }
    }

    fn is_true(self, used_percent: Option<u64>) -> bool {
        match (self, used_percent) {
            (Self::Filling { percent }, Some(used)) => used >= percent,
            _ => true,
        }
    }
}

/// The newest notices, in words.
#[derive(Debug, Default)]
pub struct Notices {
    kept: Mutex<VecDeque<Kept>>,
    recounted_blocks: AtomicU64,
    damage: AtomicU64,
    hook: Option<Hook>,
    /// Gets a word when damage is found, unless one waits there already.
    finds: Option<SyncSender<()>>,
}

/// The most names of damaged content that are reported at once.
const NAMES_MAX: usize = 8;

impl Notices {
    /// Makes an empty list; `hook` gets warnings as well.
    #[must_use]
    pub fn new(hook: Option<Hook>) -> Self {
        Self { hook, ..Self::default() }
    }

    /// Returns where words of damage arrive from now on.
    pub fn finds(&mut self) -> Receiver<()> {
        let (tell, hear) = sync_channel(1);
        self.finds = Some(tell);
        hear
    }

    /// Logs a notice and keeps it.
    pub fn tell(&self, notice: &Notice) {
        if let Notice::Recounted { blocks } = notice {
            self.recounted_blocks.fetch_add(*blocks, Ordering::Relaxed);
        }
        if let Notice::Damage { .. } = notice {
            self.damage.fetch_add(1, Ordering::Relaxed);
            // One that waits there says as much.
            self.finds.iter().for_each(|finds| finds.try_send(()).unwrap_or_default());
        }
        let (text, about) = (text(notice), About::of(notice));
        self.log(level(notice), state(notice), matches!(notice, Notice::RoomAgain), &text);
        self.kept().retain(|before| !about.ends(notice, before.about));
        self.keep(text, about);
    }

    /// Tells that the acknowledgement journal of a server that died is gone, or cannot be read.
    pub fn tell_of_lost_journal(&self) {
        let text = "the acknowledgement journal of the last server is lost, and with it writes that it had acknowledged and that no flush \
                    covered. The next flush fails once to report it";
        self.log(Level::Error, "serving", false, text);
        self.keep(text.to_owned(), About::Event);
    }

    /// Tells whose the content is that was found damaged.
    pub fn tell_names(&self, names: &[Named]) {
        let left = names.len().saturating_sub(NAMES_MAX);
        let line = |named: &Named| format!("damaged at LBN {}, {}: {}", named.offset / BLOCK_BYTES, Size(named.bytes), named.holder);
        let others = (left > 0).then(|| format!("damaged: {left} other pieces; `onefold scrub --status` names them all"));
        for text in names.iter().take(NAMES_MAX).map(line).chain(others) {
            self.log(Level::Error, "serving", false, &text);
            self.keep(text, About::Event);
        }
    }

    /// Logs a line, and passes it to the hook where it warns, or `is_awaited` there.
    fn log(&self, level: Level, state: &'static str, is_awaited: bool, text: &str) {
        match level {
            Level::Error => tracing::error!("{text}"),
            Level::Warning => tracing::warn!("{text}"),
            Level::Info => tracing::info!("{text}"),
        }
        if level != Level::Info || is_awaited {
            self.hook.iter().for_each(|hook| hook.warn(Warning { level, state, message: text.to_owned() }));
        }
    }

    fn keep(&self, text: String, about: About) {
        let mut kept = self.kept();
        if kept.len() == KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(Kept { message: Message::now(text), about });
    }

    /// Returns the lines of kept notices that are still true, and of this process's warnings; newest last. `used_percent`: of the data
    /// blocks, where it is known.
    #[must_use]
    pub fn all(&self, used_percent: Option<u64>) -> Vec<String> {
        lines(self.kept().iter().filter(|kept| kept.about.is_true(used_percent)).map(|kept| kept.message.clone()).collect())
    }

    /// Returns the number of blocks that recounts gave back.
    #[must_use]
    pub fn recounted_blocks(&self) -> u64 {
        self.recounted_blocks.load(Ordering::Relaxed)
    }

    /// Returns the number of reports of damage.
    #[must_use]
    pub fn damage(&self) -> u64 {
        self.damage.load(Ordering::Relaxed)
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns notices and this process's warnings, in lines; newest last.
#[must_use]
pub fn lines(mut notices: Vec<Message>) -> Vec<String> {
    notices.extend(warnings::all());
    notices.sort_by(|a, b| a.at.cmp(&b.at));
    notices.iter().map(Message::line).collect()
}

/// Describes the end of an index rebuild, or of a part of it.
fn index_rebuilt(entries: u64, named: u64, unnamed: u64, goes_on: bool) -> String {
    let mut text = format!("the index is filled again: {entries} entries");
    if named > 0 {
        text += &format!("; {named} blocks that a crash had left without a fingerprint have it again");
    }
    if unnamed > 0 {
        text += &format!("; {unnamed} have none yet: their content is found as a duplicate when they have been read");
    }
    if goes_on {
        text += "; what the crash left without a fingerprint is looked for when the recount has ended";
    }
    text
}

/// Describes the progress of an opening, in a line.
#[must_use]
pub fn opening(progress: &Progress) -> String {
    let Progress { units, units_most, records, records_on_pages } = progress;
    let of = if units == units_most { format!("all {units}") } else { format!("{units} of at most about {units_most}") };
    let on_pages = if *records_on_pages > 0 { format!(", {records_on_pages} of them to pages for want of memory") } else { String::new() };
    format!("{OPENING} {of} units of the log read, {records} records replayed{on_pages}")
}

fn level(notice: &Notice) -> Level {
    match notice {
        Notice::WentReadOnly { .. }
        | Notice::CountersUsedUp
        | Notice::Ousted
        | Notice::OtherServer { .. }
        | Notice::Damage { .. }
        | Notice::AcknowledgedLost { .. }
        | Notice::NoSpace { .. }
        | Notice::Full { wait_ms: 0, .. }
        | Notice::SetBack => Level::Error,
        Notice::Filling { .. } | Notice::Full { .. } | Notice::Mended { .. } => Level::Warning,
        _ => Level::Info,
    }
}

/// Returns the state that begins with a notice.
fn state(notice: &Notice) -> &'static str {
    match notice {
        Notice::WentReadOnly { .. } | Notice::CountersUsedUp | Notice::Ousted | Notice::OtherServer { .. } => "read-only",
        Notice::Full { .. } | Notice::NoSpace { .. } => "full",
        _ => "serving",
    }
}

fn text(notice: &Notice) -> String {
    match notice {
        Notice::WentReadOnly { what } => {
            format!("{what} failed: read-only from here on. What was synced before is safe. Detach, look after the device, attach again")
        }
        Notice::OtherServer { is_formatted: true, .. } => {
            "somebody has formatted the store while this server had it: read-only from here on, and nothing more is written. Detach"
                .to_owned()
        }
        Notice::OtherServer { generation, incarnation, .. } => format!(
            "another server has this volume, too: it has written superblock {generation}, of opening {incarnation}. Read-only from here \
             on, and nothing more is written. Detach here, end the other server, and run `onefold check`"
        ),
        Notice::Ousted => {
            "a server of another host has claimed this volume: read-only from here on, and nothing more is written. What was synced before \
             is safe. Detach here; attach again when that host has detached it"
                .to_owned()
        }
        Notice::CountersUsedUp => {
            "a counter of the volume has come to its end: read-only from here on. What was written is safe. Attach it with \
            `--read-only` and copy its content to a new volume"
                .to_owned()
        }
        Notice::Damage { what, at } => format!("damage: {what} at {at}. After a detach `onefold check --data` tells more"),
        Notice::Mended { what, at } => format!("mended: {what} at {at}. Memory had it, and it is durably written again"),
        &Notice::Scrubbed { damaged, mended, lost } => format!("a scrub has ended: {}", scrub_counts::found(damaged, mended, lost)),
        Notice::Filling { percent, unpacked } => {
            let unpacked = match unpacked {
                Some(Unpacked { least, most, .. }) if least == most => String::new(),
                Some(Unpacked { least, most, of }) => {
                    format!("; if new content does not compress, {least} to {most} of its {of} blocks are needed")
                }
                None => "; how much more it needs if new content does not compress is not known yet".to_owned(),
            };
            format!("{percent} % of the data blocks are in use, and the volume promises more than it has{unpacked}")
        }
        &Notice::Full { wait_ms, on_host } => full(wait_ms, on_host),
        Notice::NoSpace { waited_ms, on_host } => {
            let who = if *on_host { "there has been no room below the store" } else { "the volume has been full" };
            format!("{who} for {} s: writes that need a new block fail (ENOSPC) from here on", waited_ms / 1000)
        }
        Notice::RoomAgain => "the volume has room again".to_owned(),
        Notice::Opening(progress) => opening(progress),
        Notice::Serving => "serving".to_owned(),
        Notice::IndexRebuilt { entries, named, unnamed, goes_on } => index_rebuilt(*entries, *named, *unnamed, *goes_on),
        Notice::NoRoomForLog => "there is no free block for a log: mode `ordered` until the volume is opened again".to_owned(),
        Notice::AcknowledgedLost { writes } => {
            format!(
                "{writes} writes that the last server had acknowledged, and that no flush covered, are lost: the device does not prove \
                 them. The next flush fails once to say so"
            )
        }
        Notice::SetBack => {
            "the store lacks what the last server had made durable: it was set back to an older copy, or has lost it. What was \
             acknowledged since is not applied, and the next flush fails once to say so. Check the file system above"
                .to_owned()
        }
        Notice::Recounted { blocks } => format!("a recount gave {blocks} blocks back"),
    }
}

/// Describes a volume that finds no room, and what to do.
fn full(wait_ms: u64, on_host: bool) -> String {
    let then = match wait_ms {
        0 => "fail (ENOSPC)".to_owned(),
        _ => format!("wait for {} s, and fail (ENOSPC) after that", wait_ms / 1000),
    };
    if on_host {
        return format!(
            "the host has no room for the store: writes that need a new block {then}. Make room on the host: in the file system or quota \
             of the store's file, or in the pool of its device. What was written stays in memory until there is room"
        );
    }
    format!("the volume is full: writes that need a new block {then}. Delete and trim (fstrim) in the file system above")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(notices: &Notices, used_percent: Option<u64>) -> Vec<String> {
        // Warnings of other tests in this process come after a date, too.
        notices.kept().iter().filter(|kept| kept.about.is_true(used_percent)).map(|kept| kept.message.text.clone()).collect()
    }

    #[test]
    fn notices_have_dates_and_go_when_they_are_no_longer_true() {
        let notices = Notices::default();
        let progress = |units| Notice::Opening(Progress { units, units_most: 9, records: 0, records_on_pages: 0 });
        notices.tell(&progress(1));
        notices.tell(&progress(2));
        assert!(messages(&notices, None)[..].iter().all(|text| text.starts_with("opening: 2 of")), "{:?}", messages(&notices, None));
        notices.tell(&Notice::Serving);
        assert_eq!(messages(&notices, None), ["serving"]);

        let filling = |percent| Notice::Filling { percent, unpacked: None };
        notices.tell(&filling(80));
        notices.tell(&filling(85));
        assert_eq!(messages(&notices, Some(86)).len(), 2, "the newest alone");
        assert!(messages(&notices, Some(86))[1].starts_with("85 %"));
        assert_eq!(messages(&notices, Some(84)), ["serving"]);
        notices.tell(&Notice::Recounted { blocks: 3 });
        assert_eq!(messages(&notices, Some(10)), ["serving", "a recount gave 3 blocks back"]);

        let line = &notices.all(None)[0];
        let (date, _) = line.split_once(" UTC: ").expect("a date");
        let shape: String = date.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(shape, "0000-00-00 00:00:00", "{line}");
    }
}
