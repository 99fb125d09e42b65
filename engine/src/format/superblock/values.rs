//! Fields of which only some values have a meaning.

use crate::format::layout::Field;
use crate::format::refused::SuperblockError;
use crate::units::{count, index};

/// Reads a field that has few meanings.
pub(super) fn one_of(field: Field, bytes: &[u8], meanings: &[u64]) -> Result<u64, SuperblockError> {
    let value = field.get(bytes);
    if meanings.contains(&value) { Ok(value) } else { Err(SuperblockError::UnknownValue { field: field.name, value }) }
}

/// Reads a field that counts the entries of a table.
pub(super) fn count_of(field: Field, bytes: &[u8], most: usize) -> Result<usize, SuperblockError> {
    let value = field.get(bytes);
    if value > count(most) {
        return Err(SuperblockError::UnknownValue { field: field.name, value });
    }
    Ok(index(value))
}
