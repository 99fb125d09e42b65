//! The failures that have occurred, by which checkers know what to tolerate.

/// The failures that the clients have to tolerate.
#[derive(Clone, Copy, Debug, Default)]
pub struct FaultState {
    /// Whether a write or flush of the device has failed and the engine knows it: nothing may be written or promised any more (A5).
    pub failed: bool,
    /// Whether a device call has failed, or damage was done from outside: then I/O errors are allowed.
    pub errors: bool,
    /// Whether damage was done from outside.
    pub spoilt: bool,
    /// Whether the last server's acknowledgements are lost: the first request that waits for durability has to report it.
    pub lost: bool,
    /// Whether some of them may be lost, because the last server's device had failed: then it may be reported.
    pub doubted: bool,
}
