//! Maps and sets whose order of iteration follows from what was put into them, so that a run can be replayed.

/// A hash map without a random seed.
pub(crate) type Map<K, V> = hashbrown::HashMap<K, V, rustc_hash::FxBuildHasher>;

/// A hash set without a random seed.
pub(crate) type Set<K> = hashbrown::HashSet<K, rustc_hash::FxBuildHasher>;
