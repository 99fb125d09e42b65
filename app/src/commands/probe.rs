//! `probe`: tells whether there is a volume on a file or device, for udev and scripts.

use crate::attachment::find::find;
use crate::attachment::udev::encoded;
use crate::exit::Outcome;
use crate::output::table::Table;
use crate::output::{self, Report, Style, print};
use crate::volume::peek;
use onefold_engine::format::superblock::VERSION;
use onefold_engine::units::BLOCK_BYTES;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// Tell whether a file or device holds a volume, and which
///
/// Reads the superblocks alone, attached or not. Ends with 3 where there is no volume.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// File or block device; or a label, a UUID, or a name in /etc/onefold.
    path: String,
    /// Print the variables that udev imports: ID_FS_TYPE, ID_FS_UUID, ID_FS_LABEL and others.
    #[arg(long, conflicts_with = "json")]
    udev: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Probed {
    path: PathBuf,
    uuid: String,
    label: String,
    format_version: u32,
    /// The size as clients see it, and the size of the store.
    logical_bytes: u64,
    device_bytes: u64,
    /// Whether nothing was written since it was closed in order.
    clean: bool,
}

impl Report for Probed {
    const NAME: &'static str = "probe";

    fn table(&self) -> Table {
        use output::size::Size;
        Table::new()
            .row("volume", self.path.display())
            .row("uuid", &self.uuid)
            .row_if("label", Some(&self.label).filter(|label| !label.is_empty()))
            .row("format version", self.format_version)
            .row("size", format!("{}, on {}", Size(self.logical_bytes), Size(self.device_bytes)))
            .row("closed in order", if self.clean { "yes" } else { "no: it is attached, or the next attach recovers it" })
    }
}

fn variables(probed: &Probed) -> String {
    let (label, uuid) = (encoded(&probed.label), &probed.uuid);
    // What udev imports is one line for each variable.
    let plain = probed.label.replace(|character: char| character.is_control() || character.is_whitespace(), "_");
    let mut out = format!(
        "ID_FS_TYPE=onefold\nID_FS_USAGE=other\nID_FS_VERSION={}\nID_FS_UUID={uuid}\nID_FS_UUID_ENC={uuid}\n",
        probed.format_version
    );
    if !probed.label.is_empty() {
        let _ = write!(out, "ID_FS_LABEL={plain}\nID_FS_LABEL_ENC={label}\n");
    }
    out
}

/// Probes.
///
/// # Errors
/// When it cannot be read, or there is no volume on it.
pub fn run(arguments: &Arguments) -> Outcome {
    // udev asks for devices, at once and without a look at anything else.
    let is_path = arguments.path.contains('/') || Path::new(&arguments.path).exists();
    let path = if is_path { PathBuf::from(&arguments.path) } else { find(&arguments.path)?.path };
    let superblock = peek(&path)?.superblock;
    let probed = Probed {
        path,
        uuid: Uuid::from_bytes(superblock.uuid).to_string(),
        label: superblock.label,
        format_version: VERSION,
        logical_bytes: superblock.geometry.logical_blocks * BLOCK_BYTES,
        device_bytes: superblock.geometry.device_bytes.get(),
        clean: superblock.clean,
    };
    if arguments.udev {
        output::say(&variables(&probed));
    } else {
        print(&probed, Style::of(arguments.json));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_one_line_and_can_name_a_file() {
        let probed = |label: &str| Probed {
            path: "disk.img".into(),
            uuid: "u".to_owned(),
            label: label.to_owned(),
            format_version: 4,
            logical_bytes: 0,
            device_bytes: 0,
            clean: true,
        };
        let text = variables(&probed("my photos/2026\nID_FS_TYPE=ext4"));
        assert_eq!(text.lines().count(), 7, "{text}");
        assert!(text.contains("ID_FS_LABEL=my_photos/2026_ID_FS_TYPE=ext4\n"), "{text}");
        assert!(text.contains("ID_FS_LABEL_ENC=my\\x20photos\\x2f2026\\x0aID_FS_TYPE=ext4\n"), "{text}");
        assert!(!variables(&probed("")).contains("LABEL"));
    }
}
