//! What lies on the medium, and where: the layout, the keys of this volume, and its superblock with the update that is under way.

use crate::commit::Updates;
use crate::fingerprint::Fingerprinter;
use crate::format::authenticator::Authenticator;
use crate::format::geometry::Geometry;
use crate::format::superblock::Superblock;

/// The medium of an open volume.
pub(crate) struct Medium {
    pub geometry: Geometry,
    pub fingerprinter: Fingerprinter,
    pub authenticator: Authenticator,
    pub superblock: Superblock,
    /// An update of the superblock is under way.
    pub is_busy: bool,
    /// Copies that are on their way to the device.
    pub writes_left: u32,
    pub updates: Updates,
}

impl Medium {
    pub fn new(superblock: Superblock) -> Self {
        let geometry = superblock.geometry.clone();
        let (fingerprinter, authenticator) = (superblock.fingerprinter(), superblock.authenticator());
        Self { geometry, fingerprinter, authenticator, superblock, is_busy: false, writes_left: 0, updates: Updates::default() }
    }
}
