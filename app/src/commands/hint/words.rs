//! The words of `hint`'s commands.

use crate::hints::rule::{Act, Lives, Range};
use std::path::PathBuf;

/// Add a rule to a volume
///
/// onefold hint add /srv/volume nodedup --file '*.raw' --process recorder
#[derive(Debug, clap::Args)]
pub struct Add {
    /// Path, label, UUID, or where it is attached or mounted.
    pub volume: String,
    /// The acts for blocks that match; several with commas between them.
    #[arg(required_unless_present_any = ["default", "stream"], value_delimiter = ',', value_name = "ACT")]
    pub acts: Vec<Act>,
    /// Blocks that match belong to the stream of this name: `stats --by-stream` counts them apart. A volume has up to 15; of several
    /// rules that match, the first one names it.
    #[arg(long, value_name = "NAME")]
    pub stream: Option<String>,
    /// Blocks of files with names like this, without directory; * and ? stand for anything.
    #[arg(long, value_name = "GLOB")]
    pub file: Option<String>,
    /// Blocks that a process of this name submits. Buffered content is mostly submitted by the kernel, and has its file's name all the
    /// same.
    #[arg(long, value_name = "NAME")]
    pub process: Option<String>,
    /// Blocks of a control group, or of one below it.
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<String>,
    /// Blocks of files of this owner, by number.
    #[arg(long, value_name = "NUMBER")]
    pub uid: Option<u32>,
    /// Blocks that a file system marks as metadata.
    #[arg(long)]
    pub meta: bool,
    /// Blocks whose writer says how long they will live (F_SET_RW_HINT).
    #[arg(long, value_enum, value_name = "LIFE")]
    pub lifetime: Option<Lives>,
    /// The blocks of 4 KiB from number A up to and with number B.
    #[arg(long, value_name = "A-B", value_parser = range)]
    pub lbn: Option<Range>,
    /// These files, which lie on the volume.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub path: Vec<PathBuf>,
    /// Put the default rule in force again: files that are compressed already are not compressed again.
    #[arg(long, conflicts_with_all = ["acts", "stream", "file", "process", "cgroup", "uid", "meta", "lifetime", "lbn", "path"])]
    pub default: bool,
    /// Print the report as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Show the rules of a volume, and what each has done
#[derive(Debug, clap::Args)]
pub struct List {
    /// Path, label, UUID, or where it is attached or mounted.
    pub volume: String,
    /// Print the report as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Remove rules of a volume
#[derive(Debug, clap::Args)]
pub struct Remove {
    /// Path, label, UUID, or where it is attached or mounted.
    pub volume: String,
    /// The numbers of the rules, as `onefold hint list` shows them.
    #[arg(required_unless_present = "default", value_name = "NUMBER")]
    pub numbers: Vec<u32>,
    /// Remove the default rule, by which files that are compressed already are not compressed again.
    #[arg(long)]
    pub default: bool,
    /// Print the report as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Returns a range of blocks that was typed.
fn range(text: &str) -> Result<Range, String> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let typed = text.split_once('-').and_then(|(first, last)| Some((number(first)?, number(last)?)));
    let (first, last) = typed.ok_or("two block numbers, such as 0-4095")?;
    if first > last {
        return Err(format!("block {first} is behind block {last}: the smaller number comes first"));
    }
    Ok(Range { first, end: last.saturating_add(1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_from_the_first_block_to_the_last() {
        assert_eq!(range("7-9"), Ok(Range { first: 7, end: 10 }));
        for wrong in ["", "7", "9-7", "a-b", "-1-2", "7+2"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }
}
