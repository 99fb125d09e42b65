//! The four cases of the paper's Figure 1 (OrderMergeDedup section 2.1): the order of device operations of the real engine.
//!
//! Nothing is delayed (delay 0, strong persistence), so that the position of the non-critical writes is visible.

use crate::laboratory::counts::scene::{Order, Scene};
use onefold_engine::format::Wish;
use onefold_engine::interface::Reply;
use onefold_engine::settings::{Persistence, Settings};

/// All of them, by name.
pub const CASES: [(&str, fn()); 5] = [
    ("new_write_not_duplicate", new_write_not_duplicate),
    ("new_write_duplicate", new_write_duplicate),
    ("overwrite_not_duplicate", overwrite_not_duplicate),
    ("overwrite_duplicate", overwrite_duplicate),
    ("a_delayed_decrement_rides_along_with_the_next_increment", a_delayed_decrement_rides_along_with_the_next_increment),
];

/// Plays a scene with every order of completion.
fn play(noncritical_delay_ms: u64, scene: impl Fn(&mut Scene)) {
    for order in [Order::FirstFirst, Order::LastFirst, Order::Drawn] {
        let settings = Settings { persistence: Persistence::Strong, noncritical_delay_ms, ..Settings::default() };
        let mut stage = Scene::new(16 << 20, &Wish::default(), order, settings);
        stage.alone = true;
        assert!(stage.operations.iter().all(|operation| operation == "flush"), "opening: {:?}", stage.operations);
        scene(&mut stage);
        assert!(stage.answers.iter().all(|reply| matches!(reply, Reply::Done)), "{:?}", stage.answers);
    }
}

/// Case 1. The count begins at two: the logical block's link and the fingerprint's.
///
/// # Panics
/// Panics if the order is another.
pub fn new_write_not_duplicate() {
    play(0, |scene| {
        let operations = scene.write(3, 100);
        assert_eq!(operations, ["content P0", "refs P0: 2", "flush", "map L3: P0", "flush", "answer", "fingerprints P0"]);
    });
}

/// Case 2. There is no content and no fingerprint: the count is durable before the link.
///
/// # Panics
/// Panics if the order is another.
pub fn new_write_duplicate() {
    play(0, |scene| {
        scene.write(3, 100);
        let operations = scene.write(9, 100);
        assert_eq!(operations, ["refs P0: 3", "flush", "map L9: P0", "flush", "answer"]);
    });
}

/// Case 3. This is like case 1; and the old block's count falls only after its link is durably gone. Its fingerprint still refers to it.
///
/// # Panics
/// Panics if the order is another.
pub fn overwrite_not_duplicate() {
    play(0, |scene| {
        scene.write(3, 100);
        let operations = scene.write(3, 200);
        let critical = ["content P1", "refs P1: 2", "flush", "map L3: P1", "flush", "answer"];
        assert_eq!(operations[..6], critical);
        let mut later = operations[6..].to_vec();
        later.sort();
        assert_eq!(later, ["fingerprints P1", "refs P0: 1"], "no order is needed between these");
    });
}

/// Case 4. This is like case 2; the decrement of the old block's count comes later, although both counts lie on one page: the cycle of
/// section 2.1 does not arise.
///
/// # Panics
/// Panics if the order is another.
pub fn overwrite_duplicate() {
    play(0, |scene| {
        scene.write(3, 100);
        scene.write(9, 200);
        let operations = scene.write(9, 100);
        assert_eq!(operations, ["refs P0: 3", "flush", "map L9: P0", "flush", "answer", "refs P1: 1"]);
    });
}

/// With the default delay the decrement of case 3 waits for a page that is written anyway: the next increment's.
///
/// # Panics
/// Panics if the order is another.
pub fn a_delayed_decrement_rides_along_with_the_next_increment() {
    play(30_000, |scene| {
        scene.write(3, 100);
        scene.write(3, 200);
        let operations = scene.write(3, 300);
        assert_eq!(operations, ["content P2", "refs P0: 1, P2: 2", "flush", "map L3: P2", "flush", "answer"]);
    });
}
