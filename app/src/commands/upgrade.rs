//! `upgrade`: has this program serve volumes that another one serves, while they stay attached.

use crate::attachment::control::{self, HANDOVER_VERSION, ServerRequest, Upgrade};
use crate::attachment::directory::run_directory;
use crate::attachment::find::find;
use crate::attachment::record::{Places, Record, by_life, look};
use crate::exit::{Exit, Failed, Outcome};
use crate::output::table::Table;
use crate::output::{Report, Style, complain, print};
use onefold_engine::format::superblock::VERSION;
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The time between two looks for the new processes.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Have this program serve attached volumes that an older one serves
///
/// After a new version was installed, volumes that are attached go on with the program that serves them. This command replaces it: clients
/// of a block device wait for a moment, and clients of NBD have to connect again, as after a kill of the server. Nothing is lost.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Path, label, UUID, or where it is attached.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    volume: Option<String>,
    /// All attached volumes.
    #[arg(long)]
    all: bool,
    /// The time to wait for the new server of each volume.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    timeout: u64,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Upgraded {
    program: PathBuf,
    /// The volumes that this program serves now.
    volumes: Vec<PathBuf>,
}

impl Report for Upgraded {
    const NAME: &'static str = "upgrade";

    fn table(&self) -> Table {
        let table = Table::new().row("program", self.program.display());
        let table = self.volumes.iter().fold(table, |table, volume| table.row("serves now", volume.display()));
        if self.volumes.is_empty() { table.line("No volume is attached.") } else { table }
    }
}

/// Upgrades.
///
/// # Errors
/// When a volume is not attached, this program cannot take it over, or does not in time. The other volumes are upgraded all the same.
pub fn run(arguments: &Arguments) -> Outcome {
    let directory = run_directory()?;
    let program = std::env::current_exe().map_err(|e| Failed::system("cannot find this program", e))?;
    let records = match &arguments.volume {
        Some(name) => {
            let found = find(name)?;
            let not_attached = || Failed::new(Exit::NotFound, format!("{} is not attached", found.path.display()));
            vec![found.attached.ok_or_else(not_attached)?]
        }
        None => by_life(&directory)?.0,
    };
    let (mut volumes, mut failed) = (Vec::new(), None);
    for record in records {
        match upgrade(&directory, &record, &program, Duration::from_secs(arguments.timeout)) {
            Ok(()) => volumes.push(record.path),
            Err(why) => {
                failed.iter().for_each(|before| complain(format_args!("onefold: {before}")));
                failed = Some(why);
            }
        }
    }
    if failed.is_none() || !volumes.is_empty() {
        print(&Upgraded { program, volumes }, Style::of(arguments.json));
    }
    failed.map_or(Ok(()), Err)
}

/// Whether the process of that number runs this program.
fn runs(pid: u32, program: &Path) -> bool {
    fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|of| of == program)
}

/// Returns the failure of a server that refused, in words for one that does not know the question.
fn explained(failed: Failed, record: &Record) -> Failed {
    let path = record.path.display();
    if failed.exit != Exit::Usage {
        return failed;
    }
    Failed::new(Exit::OtherFormat, format!("{path}: the program that serves it is too old to give way to another one"))
        .next(format!("`onefold detach {path}` and `onefold attach {path}` have this program serve it."))
}

fn upgrade(directory: &Path, record: &Record, program: &Path, patience: Duration) -> Outcome {
    let places = Places::of(directory, &record.id);
    control::check_running(&places.control)?;
    let _held = record.hold_store();
    let (before, deadline) = (control::server(&places.control), Instant::now() + patience);
    let to = Upgrade { program: program.to_path_buf(), handover_version: HANDOVER_VERSION, format_version: VERSION };
    control::ask(&places.control, &ServerRequest::Upgrade(to)).map_err(|failed| explained(failed, record))?;
    loop {
        let server = control::server(&places.control).filter(|server| Some(*server) != before);
        let supervisor = look(&places.record).map(|record| record.process.pid);
        if server.is_some_and(|server| runs(server, program)) && supervisor.is_some_and(|supervisor| runs(supervisor, program)) {
            return Ok(());
        }
        if server.is_some_and(|server| !runs(server, program)) {
            let message = format!("{}: {} did not start, and the program before goes on", record.path.display(), program.display());
            return Err(Failed::new(Exit::System, message).next(format!("The log is {}.", places.log.display())));
        }
        if Instant::now() >= deadline {
            let message = format!("{}: the new server is not there yet after {} s", record.path.display(), patience.as_secs());
            return Err(Failed::new(Exit::System, message).next(format!("`onefold status {}` shows what it does.", record.path.display())));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}
