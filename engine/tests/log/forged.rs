//! What a client wrote lies where the next unit is sought: a block that was its own before, with any bytes that it liked.

use super::link;
use super::volume::{Volume, place};
use onefold_engine::format::{Authenticator, Key};

/// LBN 3 means block 20, and block 21 holds what another LBN wrote.
fn volume() -> Volume {
    let mut volume = Volume::new();
    volume.store(20);
    volume.store(21);
    let records = vec![volume.new_block(3, 20, None), volume.new_block(4, 21, None)];
    volume.unit(1, records);
    volume
}

/// It knows the format, the volume's UUID, what the next unit would say and where it would lie: all but the key.
#[test]
fn a_unit_that_a_client_made_is_none() {
    let mut volume = volume();
    volume.authenticator = Authenticator::new(&Key([0; 32]), &volume.superblock.uuid);
    volume.unit(2, vec![link(3, 21)]);
    assert_eq!(volume.open().read(3), Some(20));
}

/// The very unit that would be the next, in the place behind.
#[test]
fn a_copy_of_a_unit_is_none() {
    let mut volume = volume();
    volume.unit(2, vec![link(3, 21)]);
    assert_eq!(volume.clone().open().read(3), Some(21), "in its place it is one");
    // The anchor's places are other ones now; what lies at the second of them is that unit.
    let unit = *volume.data(place(2));
    let mut anchor = volume.newest_anchor();
    anchor.places[0].first = place(5);
    volume.superblock.anchor = Some(anchor);
    volume.write_superblock();
    let first = *volume.data(place(1));
    (*volume.data(place(5)), *volume.data(place(6))) = (first, unit);
    assert_eq!([3, 4].map(|lbn| volume.clone().open().read(lbn)), [Some(0), Some(0)], "neither lies where it was made for");
}
