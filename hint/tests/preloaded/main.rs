//! Real programs with the library before them: none behaves otherwise, whatever state the server is in, and the hints arrive.

mod c_programs;
mod coreutils;
mod questions;
mod rig;
mod server;
mod sqlite;
