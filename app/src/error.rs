//! The reasons why a server, or a process that looks after one, cannot start, go on or stop.

/// The reason of the failure.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting cannot be used. The message names it as the user typed it and suggests what to do next.
    #[error("{0}")]
    Setting(String),
    /// The system refused a call.
    #[error("{what}: {source}")]
    System { what: String, source: std::io::Error },
}
