//! Processes that are killed with -9, and the state that their successors find: the FUSE session, the NBD socket and the acknowledgement
//! journal.
//!
//! Run as `supervise`, `serve`, `attach-loop`, `detach`, `write-ring` or `store`, this program is one of the processes; otherwise it is the
//! tests, one after the other. Each test takes down what it set up, whatever happens.

mod disk;
#[path = "../common/fuse_roles.rs"]
mod fuse_roles;
mod plug;
mod rig;
mod ring;
mod roles;
mod session;
mod stopped;
mod store;
mod tools;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

/// The name of a test, a check for what it needs (which returns the reason if it is not available), and the test.
type Test = (&'static str, fn() -> Result<(), String>, fn());

const TESTS: [Test; 25] = [
    ("ring_keeps_what_was_acknowledged", tools::nothing, ring::keeps_what_was_acknowledged),
    ("session_ext4_under_verified_load", session::needed_for_ext4, session::ext4_under_verified_load),
    ("session_many_quick_kills", session::needed, session::many_quick_kills),
    ("session_of_a_volume_keeps_every_acknowledged_write", session::needed, session::of_a_volume_keeps_every_acknowledged_write),
    (
        "session_of_a_strong_volume_keeps_every_acknowledged_write",
        session::needed,
        session::of_a_strong_volume_keeps_every_acknowledged_write,
    ),
    ("session_gives_up_on_a_server_that_keeps_dying", session::needed, session::gives_up_on_a_server_that_keeps_dying),
    ("session_without_resend_ends_with_errors", session::needed, session::without_resend_ends_with_errors),
    ("session_begun_again_takes_the_dead_device_away", session::needed, session::begun_again_takes_the_dead_device_away),
    ("session_is_detached_by_sigterm_unless_in_use", session::needed, session::is_detached_by_sigterm_unless_in_use),
    ("session_killed_at_its_beginning", session::needed, session::killed_at_its_beginning),
    ("session_of_a_stopped_server_keeps_nobody_waiting", session::needed, stopped::of_a_stopped_server_keeps_nobody_waiting),
    ("session_killed_in_every_combination", session::needed, roles::killed_in_every_combination),
    ("session_over_a_store_that_was_full", session::needed, store::that_was_full_keeps_writers_waiting),
    ("session_over_a_store_that_was_full_survives_a_kill", session::needed, store::that_was_full_survives_a_kill),
    ("session_over_a_store_that_is_full", session::needed, store::that_is_full_is_detached_and_attached_again),
    (
        "session_over_a_full_file_system_is_detached_and_attached_again",
        session::needed,
        store::on_a_full_file_system_is_detached_and_attached_again,
    ),
    ("session_over_a_store_that_was_gone", session::needed, store::that_was_gone_is_detached_and_attached_again),
    ("store_that_is_silent_hangs_no_name", session::needed, store::that_is_silent_hangs_no_name),
    ("session_over_a_full_volume_is_detached_at_once", session::needed, store::a_full_volume_is_detached_at_once),
    ("nbd_killed_in_every_combination", tools::nothing, roles::over_nbd_killed_in_every_combination),
    ("session_outlives_its_supervisor", session::needed, session::outlives_its_supervisor),
    ("session_ended_by_its_server", session::needed, session::ended_by_its_server),
    ("session_ended_with_a_failure_is_not_begun_again", session::needed, session::ended_with_a_failure_is_not_begun_again),
    ("session_holes_and_zeroes_reach_the_file", session::needed, session::holes_and_zeroes_reach_the_file),
    ("session_that_cannot_start_leaves_nothing", session::needed, session::that_cannot_start_leaves_nothing),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let Some(code) = fuse_roles::play(&arguments).or_else(|| ring::play(&arguments)).or_else(|| plug::play(&arguments)) {
        return code;
    }
    if arguments.contains(&"--list") {
        TESTS.iter().for_each(|(name, ..)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let filters: Vec<&str> = arguments.into_iter().filter(|argument| !argument.starts_with("--")).collect();
    let wanted = |name: &str| filters.is_empty() || filters.iter().any(|filter| name.contains(filter));
    run(&TESTS.into_iter().filter(|(name, ..)| wanted(name)).collect::<Vec<_>>())
}

/// Prints what cargo's own harness would print, so that programs that count its lines count these.
fn run(tests: &[Test]) -> ExitCode {
    let began = Instant::now();
    println!("\nrunning {} tests", tests.len());
    let mut failed = 0;
    for (name, needed, test) in tests {
        if let Err(reason) = needed() {
            // It counts as passed; readers of the SKIPPED line subtract it again.
            eprintln!("SKIPPED {name}: {reason}");
            println!("test {name} ... ok");
            continue;
        }
        let outcome = catch_unwind(AssertUnwindSafe(test));
        failed += usize::from(outcome.is_err());
        println!("test {name} ... {}", if outcome.is_ok() { "ok" } else { "FAILED" });
    }
    let (verdict, passed) = (if failed == 0 { "ok" } else { "FAILED" }, tests.len() - failed);
    let filtered = TESTS.len() - tests.len();
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "\ntest result: {verdict}. {passed} passed; {failed} failed; 0 ignored; 0 measured; \
         {filtered} filtered out; finished in {seconds:.2}s\n"
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
