//! Work on several threads: the most costly first, so that at the end no thread waits long for another.

use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::sync::{Mutex, PoisonError};

/// A replay that failed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failure {
    pub replay: String,
    pub error: String,
}

/// Does the work for each item on this number of threads. The results are in the order of the items.
///
/// # Panics
/// Panics if the work does.
pub fn on_threads<T: Sync, R: Send>(items: &[T], cost: impl Fn(&T) -> u64, threads: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&at| Reverse(cost(&items[at])));
    let todo = Mutex::new(order.into_iter());
    let done: Mutex<Vec<Option<R>>> = Mutex::new(items.iter().map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let next = todo.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(at) = next else { break };
                    let result = work(&items[at]);
                    done.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(result);
                }
            });
        }
    });
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.into_iter().map(|result| result.expect("there is a thread, and every item was worked on")).collect()
}

/// Parts the results of work that may fail into what was made and what failed, each in order.
pub fn parted<R, E>(results: Vec<Result<R, E>>) -> (Vec<R>, Vec<E>) {
    let (mut made, mut failed) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(result) => made.push(result),
            Err(failure) => failed.push(failure),
        }
    }
    (made, failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_costly_come_first_and_results_keep_their_order() {
        let begun = Mutex::new(Vec::new());
        let squares = on_threads(
            &[1u64, 3, 2],
            |&n| n,
            1,
            |&n| {
                begun.lock().expect("nobody panics with it").push(n);
                n * n
            },
        );
        assert_eq!((squares, begun.into_inner().expect("nobody panics with it")), (vec![1, 9, 4], vec![3, 2, 1]));
    }
}
