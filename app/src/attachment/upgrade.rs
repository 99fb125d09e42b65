//! Giving way to another program: a volume stays attached while the program that serves it is replaced.
//!
//! 1. The server notes the path of the other program and dies. The supervisor starts the next server of that program, once: if that dies
//!    before it is ready, the next one is of the supervisor's own.
//! 2. When the server of the other program is ready, the supervisor dies, and the server starts the next one, of its own program.
//! 3. So nothing happens that a kill of both would not have done, and nothing that was acknowledged is lost.

use super::control::{HANDOVER_VERSION, Upgrade};
use super::plan::Plan;
use super::record::{Places, small_file, write_small};
use crate::exit::{Exit, Failed, Outcome};
use onefold_engine::format::superblock::VERSION;
use rustix::fs::{Access, access};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Notes the program for the next server of an attachment.
///
/// # Errors
/// When it could not take over.
pub fn prepare(plan: &Plan, upgrade: &Upgrade) -> Outcome {
    let volume = plan.path.display();
    let again = || format!("`onefold detach {volume}` and `onefold attach {volume}` have the new program serve it.");
    if !plan.is_supervised() {
        let message = format!("{volume} is attached in the foreground, so that no other server can take over");
        return Err(Failed::new(Exit::Refused, message).next(again()));
    }
    if (upgrade.handover_version, upgrade.format_version) != (HANDOVER_VERSION, VERSION) {
        let message = format!("{}: this version cannot take over {volume} from the one that serves it", upgrade.program.display());
        return Err(Failed::new(Exit::OtherFormat, message).next(again()));
    }
    access(&upgrade.program, Access::EXEC_OK).map_err(|e| Failed::system(format!("cannot run {}", upgrade.program.display()), e))?;
    let place = Places::of(&plan.directory, &plan.id).program;
    let written = write_small(&place, upgrade.program.as_os_str().as_bytes());
    written.map_err(|e| Failed::system(format!("cannot write {}", place.display()), e))
}

/// Returns the program that was noted at `place`, and forgets it.
#[must_use]
pub fn take_program(place: &Path) -> Option<PathBuf> {
    let program = small_file(place).map(|bytes| PathBuf::from(OsString::from_vec(bytes)));
    let _ = fs::remove_file(place);
    program.filter(|program| access(program, Access::EXEC_OK).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_program_that_was_noted_is_taken_once_and_only_if_it_can_run() {
        let scratch = tempfile::tempdir().unwrap();
        let place = scratch.path().join("id.program");
        let data = scratch.path().join("data");
        fs::write(&data, "no program").unwrap();
        fs::set_permissions(&data, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(take_program(&place), None);
        for (program, taken) in [(Path::new("/bin/sh"), true), (&data, false), (Path::new("/no/such/program"), false)] {
            fs::write(&place, program.as_os_str().as_bytes()).unwrap();
            assert_eq!(take_program(&place), taken.then(|| program.to_path_buf()));
            assert_eq!(take_program(&place), None, "it was forgotten");
        }
    }
}
