//! Hints: rules of the volume and of its configuration, compared with what the kernel has seen of a request before it arrived
//! (`onefold_observer`).
//!
//! 1. Everything here is advice: without an observer, or where it has lost something, requests are as those of which nothing is known.
//! 2. A rule is in force once it is durable.
//! 3. No request waits for anything but a short lock.

pub mod extensions;
mod gathered;
pub mod groups;
pub mod kept;
mod live;
pub mod locate;
mod marks;
pub mod report;
pub mod rule;
pub mod sight;

pub use kept::Kept;
pub use live::Live;

use crate::device::backing::Backing;
use crate::exit::{Exit, Failed, Outcome};
use gathered::Gathered;
use kept::{Place, no_place};
use marks::Marks;
use onefold_engine::format::Superblock;
use onefold_engine::interface::Op;
use onefold_engine::policy::{Policies, Policy};
use onefold_engine::units::BLOCK_BYTES;
use onefold_observer::{Disk, Observation, Observer, Operation};
use report::HintCounts;
use rule::Rule;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

/// The hints of an attached volume.
pub struct Hints {
    /// Nothing is in force, and nothing is observed: requests need not be looked at.
    is_idle: AtomicBool,
    live: RwLock<Arc<Live>>,
    observer: RwLock<Option<Arc<Observer>>>,
    marks: Marks,
    owned: Mutex<Owned>,
    /// The disk that clients use, once it is known.
    disk: OnceLock<Disk>,
    /// The rules have changed, and so perhaps what is to be observed.
    changed: Condvar,
    /// The function that is called whenever the rules have changed.
    follower: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// The part that only orders of the owner change.
#[derive(Default)]
struct Owned {
    kept: Kept,
    configured: Vec<Rule>,
    /// Why the rules of the volume could not be read: then they stay as they are.
    unreadable: Option<Failed>,
    superblock: Option<Box<Superblock>>,
    backing: Option<Arc<Backing>>,
    /// Counts the changes.
    version: u64,
    /// Why nothing is observed, for people.
    blind: Option<String>,
}

impl Default for Hints {
    /// The hints of a volume without rules: nothing is known of any request.
    fn default() -> Self {
        Self {
            is_idle: AtomicBool::new(true),
            live: RwLock::default(),
            observer: RwLock::default(),
            marks: Marks::default(),
            owned: Mutex::default(),
            disk: OnceLock::new(),
            changed: Condvar::new(),
            follower: OnceLock::new(),
        }
    }
}

impl Hints {
    /// Returns the hints of a volume that is being opened, with the rules that it keeps and those of its configuration. Rules that cannot
    /// be read are as none: they are worth a line in the log, and no volume waits for them.
    #[must_use]
    pub fn of_volume(backing: &Arc<Backing>, superblock: &Superblock, configured: &[Rule]) -> Arc<Self> {
        let kept = Place::of(backing, superblock).map_or_else(|| Ok(Kept::default()), |place| place.load());
        let (kept, unreadable) = match kept {
            Ok(kept) => (kept, None),
            Err(failed) => {
                tracing::warn!("{failed}");
                (Kept::default(), Some(failed))
            }
        };
        let hints = Self::default();
        *hints.owned() = Owned {
            kept,
            unreadable,
            configured: configured.to_vec(),
            superblock: Some(Box::new(superblock.clone())),
            backing: Some(backing.clone()),
            ..Owned::default()
        };
        hints.put_in_force();
        Arc::new(hints)
    }

    /// Returns the policies of a request's blocks. Each request is to be asked for once: it uses up what was seen of it.
    #[must_use]
    pub fn policies_of(&self, op: Op, offset: u64, length: u64) -> Policies {
        if self.is_idle.load(Ordering::Relaxed) || length == 0 {
            return Policies::default();
        }
        let live = read(&self.live).clone();
        let operation = match op {
            Op::Write => Operation::Write,
            Op::Discard => Operation::Discard,
            Op::WriteZeroes => Operation::WriteZeroes,
            Op::Read if live.minds_reads() => Operation::Read,
            Op::Read | Op::Flush | Op::Extents => return Policies::default(),
        };
        let observer = read(&self.observer).clone();
        let (first, end) = (offset / BLOCK_BYTES, (offset + length).div_ceil(BLOCK_BYTES));
        let mut policies = Gathered::new(first);
        match observer.map(|observer| observer.seen(operation, offset, length)) {
            Some(runs) => runs.iter().for_each(|run| {
                let first = run.offset() / BLOCK_BYTES;
                self.judge(&live, first, first + run.blocks(), run.observation().map(|seen| &**seen), &mut policies);
            }),
            None => self.judge(&live, first, end, None, &mut policies),
        }
        if matches!(op, Op::Write | Op::Read) { policies.done() } else { Policies::default() }
    }

    /// Adds the policies of a run of blocks of which the same was seen.
    fn judge(&self, live: &Live, first: u64, end: u64, seen: Option<&Observation>, policies: &mut Gathered) {
        let marked = self.marks.policy(first, seen);
        if live.minds_lbns() {
            (first..end).for_each(|lbn| policies.add(lbn, lbn + 1, live.policy(lbn, lbn + 1, seen).and(marked)));
        } else {
            policies.add(first, end, live.policy(first, end, seen).and(marked));
        }
    }

    /// Adds rules to those that the volume keeps. Returns their numbers; they are durable.
    ///
    /// # Errors
    /// When the volume has no room for them, or cannot be written.
    pub fn add(&self, rules: Vec<Rule>) -> Outcome<Vec<u32>> {
        let mut numbers = Vec::new();
        self.change(|kept| {
            numbers = kept.add(rules)?;
            Ok(())
        })?;
        Ok(numbers)
    }

    /// Removes rules of the volume: all of these, or none.
    ///
    /// # Errors
    /// When there is none of such a number, or the volume cannot be written.
    pub fn remove(&self, numbers: &[u32]) -> Outcome {
        let remove = |kept: &mut Kept, &number: &u32| if kept.remove(number) { Ok(()) } else { Err(no_rule(number)) };
        self.change(|kept| numbers.iter().try_for_each(|number| remove(kept, number)))
    }

    /// Has files that are compressed already be compressed again, or not.
    ///
    /// # Errors
    /// When the volume cannot be written.
    pub fn spare_compressed(&self, spares: bool) -> Outcome {
        self.change(|kept| {
            kept.spares_compressed = spares;
            Ok(())
        })
    }

    /// The disk that clients use, if they use one, and it is known.
    #[must_use]
    pub fn disk(&self) -> Option<Disk> {
        self.disk.get().copied()
    }

    /// The counts of the hints so far.
    #[must_use]
    pub fn counts(&self) -> HintCounts {
        let owned = self.owned();
        let observer = read(&self.observer).clone();
        HintCounts::of(&read(&self.live), observer.as_deref(), owned.blind.clone(), self.marks.len())
    }

    /// The LBNs that rules have protected.
    #[must_use]
    pub fn protected(&self) -> Vec<rule::Range> {
        read(&self.live).protected().collect()
    }

    /// Has `follower` called whenever the rules have changed; only the first one is.
    pub fn follow(&self, follower: impl Fn() + Send + Sync + 'static) {
        drop(self.follower.set(Box::new(follower)));
    }

    /// Marks a file for as long as the server lives: a program has said so itself.
    pub fn mark(&self, within: rule::Range, inode: u64, policy: Policy) {
        let is_first = self.marks.len() == 0;
        self.marks.add(within, inode, policy);
        if is_first {
            // Files were perhaps not observed before.
            self.put_in_force();
        }
    }

    /// Changes the rules that the volume keeps, durably, and puts them in force.
    fn change(&self, change: impl FnOnce(&mut Kept) -> Outcome) -> Outcome {
        {
            let mut owned = self.owned();
            if let Some(failed) = &owned.unreadable {
                return Err(failed.clone());
            }
            let mut kept = owned.kept.clone();
            change(&mut kept)?;
            let (Some(backing), Some(superblock)) = (&owned.backing, &owned.superblock) else {
                return Err(Failed::new(Exit::State, "there is no volume here, so there are no rules".to_owned()));
            };
            let place = Place::of(backing, superblock).ok_or_else(|| no_place(&backing.facts().path))?;
            place.save(&kept)?;
            owned.kept = kept;
        }
        self.put_in_force();
        Ok(())
    }

    fn put_in_force(&self) {
        let mut owned = self.owned();
        self.renew(&owned);
        owned.version += 1;
        drop(owned);
        self.see_whether_idle();
        self.changed.notify_all();
        self.follower.get().into_iter().for_each(|follower| follower());
    }

    /// Compares requests with the rules as they are now, and with the control groups that there are now.
    fn renew(&self, owned: &Owned) {
        let live = Live::new(&owned.kept, &owned.configured, &read(&self.live).clone());
        *self.live.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(live);
    }

    /// Takes another observer, or none.
    fn observe_by(&self, observer: Option<Arc<Observer>>, blind: Option<String>) {
        *self.observer.write().unwrap_or_else(PoisonError::into_inner) = observer.clone();
        self.owned().blind = blind;
        self.see_whether_idle();
        if let Some(observer) = observer {
            observer.begin_anew();
        }
    }

    fn see_whether_idle(&self) {
        let live = read(&self.live).clone();
        let is_blind = read(&self.observer).is_none();
        // Without an observer a rule can still be about LBNs.
        let is_idle = live.is_empty() || is_blind && !live.minds_lbns();
        self.is_idle.store(is_idle && self.marks.len() == 0, Ordering::Relaxed);
    }

    fn owned(&self) -> MutexGuard<'_, Owned> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error where a volume has no rule of this number.
#[must_use]
pub fn no_rule(number: u32) -> Failed {
    Failed::new(Exit::NotFound, format!("there is no rule {number}")).next("`onefold hint list` shows the rules with their numbers.")
}

fn read<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}
