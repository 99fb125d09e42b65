//! `manual SHARE`: writes the manual pages and completions of `onefold` below a folder, for `./dev install` and packages.

mod generate;

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(share) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: manual SHARE");
        return ExitCode::from(2);
    };
    match generate::generate(&onefold::cli::command(), &share) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("manual: {}: {error}", share.display());
            ExitCode::FAILURE
        }
    }
}
