//! The four cases of the paper's Figure 1 (OrderMergeDedup section 2.1): the order of device operations of the real engine.
//!
//! Nothing is delayed (delay 0, strong persistence), so that the position of the non-critical writes is visible.

use onefold_sim::laboratory::counts::figure1;

#[test]
fn new_write_not_duplicate() {
    figure1::new_write_not_duplicate();
}

#[test]
fn new_write_duplicate() {
    figure1::new_write_duplicate();
}

#[test]
fn overwrite_not_duplicate() {
    figure1::overwrite_not_duplicate();
}

#[test]
fn overwrite_duplicate() {
    figure1::overwrite_duplicate();
}

#[test]
fn a_delayed_decrement_rides_along_with_the_next_increment() {
    figure1::a_delayed_decrement_rides_along_with_the_next_increment();
}

#[test]
fn each_case_has_its_name() {
    assert_eq!(
        figure1::CASES.map(|(name, _)| name),
        [
            "new_write_not_duplicate",
            "new_write_duplicate",
            "overwrite_not_duplicate",
            "overwrite_duplicate",
            "a_delayed_decrement_rides_along_with_the_next_increment"
        ]
    );
}
