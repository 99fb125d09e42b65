//! `version`: what this program is, and which volumes it can use.

use crate::output::table::Table;
use crate::output::{Report, Style, print};
use onefold_engine::format::superblock::VERSION;
use serde::Serialize;

/// The version of the program. A package's has the day and the commit, too, which `./dev package` gives.
pub const VERSION_NAME: &str = match option_env!("ONEFOLD_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// Show the version of the program, and of the format that it reads and writes
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Version {
    onefold: &'static str,
    /// The only version of the format that it can use.
    format_version: u32,
    architecture: &'static str,
}

impl Report for Version {
    const NAME: &'static str = "version";

    fn table(&self) -> Table {
        Table::new().row("onefold", self.onefold).row("format version", self.format_version).row("architecture", self.architecture)
    }
}

/// Shows.
pub fn run(arguments: &Arguments) {
    let version = Version { onefold: VERSION_NAME, format_version: VERSION, architecture: std::env::consts::ARCH };
    print(&version, Style::of(arguments.json));
}
