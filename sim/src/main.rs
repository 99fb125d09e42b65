//! The test kit's own command: `crash`, `counts`, `bound`, `codecs`, `flash`, `steps`, `sweeps`, `transcripts`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let verb = std::env::args().nth(1);
    let words: Vec<String> = std::env::args().skip(2).collect();
    let done = match verb.as_deref() {
        Some("crash") => onefold_sim::explorer::crash::command(&words),
        #[cfg(feature = "measure")]
        Some("counts") => onefold_sim::laboratory::counts::figures::command(&words).map_err(std::io::Error::other),
        #[cfg(feature = "measure")]
        Some("bound") => onefold_sim::laboratory::codecs::bound::command(&words).map_err(std::io::Error::other),
        #[cfg(feature = "measure")]
        Some("codecs") => onefold_sim::laboratory::codecs::command(&words).map_err(std::io::Error::other),
        #[cfg(feature = "measure")]
        Some("flash") => onefold_sim::laboratory::flash::analytic::command(&words).map_err(std::io::Error::other),
        #[cfg(feature = "measure")]
        Some("transcripts") => onefold_sim::transcripts::command(&words).map_err(std::io::Error::other),
        #[cfg(feature = "measure")]
        Some("steps") => onefold_sim::laboratory::steps::command(&words).map_err(std::io::Error::other),
        #[cfg(feature = "measure")]
        Some("sweeps") => onefold_sim::laboratory::sweeps::command(&words).map_err(std::io::Error::other),
        _ => {
            eprintln!("usage: onefold-sim crash | counts | bound | codecs | flash | steps | sweeps | transcripts [OPTIONS]");
            return ExitCode::from(2);
        }
    };
    done.unwrap_or_else(|error| {
        eprintln!("onefold-sim: {error}");
        ExitCode::from(2)
    })
}
