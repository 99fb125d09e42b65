//! The live measurements of `./dev bench hints-table-1` and `file-types`, which the report takes from a file that they leave.

use super::published::TABLE_1;
use crate::laboratory::papers::drawing::html::{Table, percent};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The blocks of 4 KiB that a file system wrote under the file server's load.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Written {
    pub file_system: String,
    pub blocks: u64,
    /// Those that it marked as metadata, and of them those whose content the volume already had.
    pub metadata: u64,
    pub metadata_duplicates: u64,
    /// Blocks of which nothing was known.
    pub unknown: u64,
}

impl Written {
    /// Returns the share of metadata in the writes.
    #[must_use]
    pub fn metadata_share(&self) -> Option<f64> {
        self.shares().0
    }

    #[allow(clippy::cast_precision_loss)] // counts of one run are far below 2^52
    fn shares(&self) -> (Option<f64>, Option<f64>) {
        let share = |part: u64, of: u64| (of > 0).then(|| part as f64 / of as f64);
        (share(self.metadata, self.blocks), share(self.metadata - self.metadata_duplicates.min(self.metadata), self.metadata))
    }
}

/// The blocks of 4 KiB that files of one type have brought, when a tree was copied.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct FileType {
    /// The end of their names; or metadata, or others.
    pub kind: String,
    pub blocks: u64,
    /// Those whose content the volume already had.
    pub duplicates: u64,
}

/// A file system that was not measured.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Lacking {
    pub file_system: String,
    pub why: String,
}

/// Everything that was measured live.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct HintsLive {
    pub kernel: String,
    pub table_1: Vec<Written>,
    pub lacking: Vec<Lacking>,
    /// The tree that was copied for Table 2 of SmartDedup, its files, and what their types have brought.
    pub tree: String,
    pub files: u64,
    pub table_2: Vec<FileType>,
}

impl HintsLive {
    /// Reads the file.
    ///
    /// # Errors
    /// Fails if it is not there, or is no such file.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}; ./dev bench hints-table-1 makes such a file", path.display()))
    }

    /// Returns the names of the file systems that were measured.
    #[must_use]
    pub fn measured(&self) -> Vec<&str> {
        self.table_1.iter().map(|row| row.file_system.as_str()).collect()
    }

    /// Formats what the types of files of a copied tree have brought; nothing if that was not measured.
    #[must_use]
    pub fn file_types(&self) -> String {
        if self.table_2.is_empty() {
            return String::new();
        }
        let caption = format!("Table 2, here: {} copied to ext4, {} files, by the ends of their names", self.tree, self.files);
        let mut table = Table::new(caption, ["type of file", "blocks", "share of the writes", "duplicates among them"]);
        let all: u64 = self.table_2.iter().map(|row| row.blocks).sum();
        #[allow(clippy::cast_precision_loss)] // counts of one run are far below 2^52
        let share = |part: u64, of: u64| percent((of > 0).then(|| part as f64 / of as f64));
        for FileType { kind, blocks, duplicates } in &self.table_2 {
            table.row([kind.clone(), blocks.to_string(), share(*blocks, all), share(*duplicates, *blocks)]);
        }
        table.html()
    }

    /// Formats Table 1, published and measured.
    #[must_use]
    pub fn table(&self) -> String {
        let heads =
            ["file system", "metadata, published", "unique, published", "blocks", "metadata", "unique", "blocks of which nothing is known"];
        let caption = format!("Table 1: metadata among the writes, and unique ones among them; kernel {}", self.kernel);
        let mut table = Table::new(caption, heads);
        let mut names: Vec<&str> = TABLE_1.iter().map(|row| row.name).collect();
        names.extend(self.measured().into_iter().filter(|name| TABLE_1.iter().all(|row| row.name != *name)));
        for name in names {
            let published = TABLE_1.iter().find(|row| row.name == name);
            #[allow(clippy::cast_precision_loss)] // below 1000
            let of = |per_mille: Option<u64>| percent(per_mille.map(|per_mille| per_mille as f64 / 1000.0));
            let here = self.table_1.iter().find(|row| row.file_system == name);
            let (metadata, unique) = here.map_or((None, None), Written::shares);
            let why = || self.lacking.iter().find(|row| row.file_system == name).map_or("–", |row| &row.why).to_owned();
            table.row([
                name.to_owned(),
                of(published.map(|row| row.metadata_per_mille)),
                of(published.map(|row| row.unique_per_mille)),
                here.map_or_else(why, |row| row.blocks.to_string()),
                percent(metadata),
                percent(unique),
                here.map_or_else(|| "–".to_owned(), |row| row.unknown.to_string()),
            ]);
        }
        table.html()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_1_has_every_file_system_and_names_what_is_lacking() {
        let live: HintsLive = serde_json::from_str(
            r#"{"kernel": "6.1", "table_1": [{"file_system": "btrfs", "blocks": 1000, "metadata": 250, "metadata_duplicates": 50,
                "unknown": 3}], "lacking": [{"file_system": "nilfs2", "why": "not in this kernel"}]}"#,
        )
        .expect("it is such a file");
        let html = live.table();
        assert!(html.contains("28.0 %") && html.contains("not in this kernel"), "{html}");
        assert!(html.contains("btrfs") && html.contains("25.0 %") && html.contains("80.0 %"), "{html}");
        assert_eq!(live.file_types(), "");
    }

    #[test]
    fn types_of_files_have_their_shares() {
        let live: HintsLive = serde_json::from_str(
            r#"{"tree": "/usr/share", "files": 7, "table_2": [{"kind": ".gz", "blocks": 30, "duplicates": 15},
                {"kind": "others", "blocks": 90, "duplicates": 0}]}"#,
        )
        .expect("it is such a file");
        let html = live.file_types();
        assert!(html.contains("/usr/share") && html.contains("25.0 %") && html.contains("50.0 %") && html.contains("75.0 %"), "{html}");
    }
}
