//! The NBD front-end.
