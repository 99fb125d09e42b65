//! The clock of a volume, and the alarm that its engine sets.

use onefold_engine::units::Time;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Nanoseconds since the volume was opened, and one alarm.
pub struct Timer {
    start: Instant,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    alarm: Option<Time>,
    /// The time until which the timer's thread sleeps.
    sleeps_until: Option<Time>,
    is_stopped: bool,
}

impl Default for Timer {
    fn default() -> Self {
        Self { start: Instant::now(), state: Mutex::default(), changed: Condvar::new() }
    }
}

impl Timer {
    /// Returns the time.
    #[must_use]
    pub fn now(&self) -> Time {
        Time(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Sets the alarm, instead of the one before.
    pub fn set(&self, at: Time) {
        let mut state = self.state();
        state.alarm = Some(at);
        // A later alarm can wait until the thread wakes by itself and looks again.
        if state.sleeps_until.is_none_or(|until| at < until) {
            self.changed.notify_one();
        }
    }

    /// Ends [`wait`](Self::wait), now and forever.
    pub fn stop(&self) {
        self.state().is_stopped = true;
        self.changed.notify_one();
    }

    /// Sleeps until the alarm, and removes it. False when the timer was stopped.
    #[must_use]
    pub fn wait(&self) -> bool {
        let mut state = self.state();
        loop {
            if state.is_stopped {
                return false;
            }
            let now = self.now();
            match state.alarm {
                Some(at) if at <= now => {
                    state.alarm = None;
                    state.sleeps_until = Some(now);
                    return true;
                }
                Some(at) => {
                    state.sleeps_until = Some(at);
                    let pause = Duration::from_nanos(at - now);
                    state = self.changed.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0;
                }
                None => {
                    state.sleeps_until = None;
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn an_earlier_alarm_wakes_and_a_later_one_waits() {
        let timer = Arc::new(Timer::default());
        timer.set(timer.now().plus_ms(60_000));
        let sleeper = std::thread::spawn({
            let timer = timer.clone();
            move || {
                let mut rings = Vec::new();
                while timer.wait() {
                    rings.push(timer.now());
                }
                rings
            }
        });
        std::thread::sleep(Duration::from_millis(20));
        let (early, late) = (timer.now().plus_ms(20), timer.now().plus_ms(60));
        timer.set(early);
        timer.set(late);
        std::thread::sleep(Duration::from_millis(120));
        timer.stop();
        let rings = sleeper.join().unwrap();
        assert_eq!(rings.len(), 1, "{rings:?}");
        assert!(rings[0] >= late, "{rings:?} rang before {late:?}");
    }
}
