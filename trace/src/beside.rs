//! The file that a recorder leaves beside a text: `NAME.json`, where NAME is the name of the text's file up to the first dot.

use onefold_engine::units::{BLOCK_BYTES, Bytes};
use std::path::Path;

/// Returns the name of a trace: its file's name up to the first dot.
#[must_use]
pub fn name_of(trace: &Path) -> String {
    let file = trace.file_name().unwrap_or_default().to_string_lossy();
    file.split('.').next().unwrap_or_default().to_owned()
}

/// Returns the size of the traced device, as the file beside the trace gives it.
///
/// # Errors
/// Fails if that file is missing or does not give the size.
pub fn device_bytes(trace: &Path) -> Result<Bytes, String> {
    let path = trace.with_file_name(format!("{}.json", name_of(trace)));
    let text = std::fs::read_to_string(&path)
        .map_err(|e| format!("{} does not say how large its device is, and {}: {e}", trace.display(), path.display()))?;
    let facts: serde_json::Value = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    let blocks = facts["size_4k"].as_u64().and_then(|blocks| blocks.checked_mul(BLOCK_BYTES));
    blocks.map(Bytes).ok_or_else(|| format!("{} does not say size_4k, the blocks of the device", path.display()))
}
