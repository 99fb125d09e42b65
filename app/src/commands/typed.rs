//! Values of options that several verbs have.

use onefold_engine::format::superblock::LABEL_BYTES_MAX;
use uuid::Uuid;

/// Parses a label: what is neither a path nor a UUID, and fits into a superblock.
///
/// # Errors
/// When it is none.
pub(super) fn parse_label(typed: &str) -> Result<String, String> {
    if typed.len() > LABEL_BYTES_MAX || typed.chars().any(|c| c.is_control() || c == '/') {
        return Err(format!("a label has at most {LABEL_BYTES_MAX} bytes, and neither slashes nor control characters"));
    }
    if Uuid::parse_str(typed).is_ok() {
        return Err("it would be taken for a UUID".to_owned());
    }
    Ok(typed.to_owned())
}

/// Parses a sector size.
///
/// # Errors
/// When volumes cannot have it.
pub(super) fn parse_sector(typed: &str) -> Result<u32, String> {
    match typed {
        "512" => Ok(512),
        "4096" => Ok(4096),
        _ => Err("give 512 or 4096".to_owned()),
    }
}
