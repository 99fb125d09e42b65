//! The command line of `check`.

use crate::output::size::Size;

/// Check a volume that is not attached: count every link, find damage and garbage; nothing is written
///
/// With --repair: show what a repair would do, and do it if the user agrees. Damaged metadata is made anew where it can be, and logical
/// blocks of which nothing says any more what they hold are given up by name. A damaged log is cut off before its damage.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Path, label or UUID.
    pub(super) volume: String,
    /// Read every block, too, and compare it with its fingerprint.
    #[arg(long)]
    pub(super) data: bool,
    /// Memory for counts and buffers. With less of it, the check reads the map more often.
    #[arg(long, value_name = "SIZE", default_value = "64M")]
    pub(super) memory: Size,
    /// Plan a repair, show it, and ask. With --data, blocks that do not hold what their entries say are given up, too.
    #[arg(long)]
    pub(super) repair: bool,
    /// Repair without asking.
    #[arg(long, requires = "repair")]
    pub(super) yes: bool,
    /// Repair a store that takes no direct I/O, with the page cache's risks.
    #[arg(long, requires = "repair")]
    pub(super) buffered: bool,
    /// Print the report as JSON.
    #[arg(long)]
    pub(super) json: bool,
}
