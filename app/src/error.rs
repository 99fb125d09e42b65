//! Why something that serves clients, or looks after what does, cannot start, go on or stop.

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting cannot be used. Names it as the user typed it and says what to do next.
    #[error("{0}")]
    Setting(String),
    /// The system refused something.
    #[error("{what}: {source}")]
    System { what: String, source: std::io::Error },
}
