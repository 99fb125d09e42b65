//! Forged units: the block where the next unit is sought was a client's before, and the client may have written any bytes there.

use super::link;
use super::volume::{Volume, place};
use onefold_engine::format::{Authenticator, Key};

/// A volume in which LBN 3 means block 20, and another LBN means block 21.
fn volume() -> Volume {
    let mut volume = Volume::new();
    volume.store(20);
    volume.store(21);
    let records = vec![volume.new_block(3, 20, None), volume.new_block(4, 21, None)];
    volume.unit(1, records);
    volume
}

/// The client knows everything but the key: the format, the UUID of the volume, and the content and place of the next unit.
#[test]
fn a_unit_that_a_client_made_is_none() {
    let mut volume = volume();
    volume.authenticator = Authenticator::new(&Key([0; 32]), &volume.superblock.uuid);
    volume.unit(2, vec![link(3, 21)]);
    assert_eq!(volume.open().read(3), Some(20));
}

/// The units are sound copies, but lie at places for which they were not made.
#[test]
fn a_copy_of_a_unit_is_none() {
    let mut volume = volume();
    volume.unit(2, vec![link(3, 21)]);
    assert_eq!(volume.clone().open().read(3), Some(21), "in its place it is one");
    // The log tail gives other places now, and copies of the units lie there.
    let unit = *volume.data(place(2));
    let mut log_tail = volume.newest_log_tail();
    log_tail.places[0].first = place(5);
    volume.superblock.log_tail = Some(log_tail);
    volume.write_superblock();
    let first = *volume.data(place(1));
    (*volume.data(place(5)), *volume.data(place(6))) = (first, unit);
    assert_eq!([3, 4].map(|lbn| volume.clone().open().read(lbn)), [Some(0), Some(0)], "neither lies where it was made for");
}
