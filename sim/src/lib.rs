//! The test kit: simulated devices, oracle, checkers, crash explorer.
