//! `./dev mutants`: checks that the tests and the checkers notice faults. It breaks the engine on purpose, in a scratch copy, one place at
//! a time.
//!
//! - *Named* mutants are the patches in `sim/mutants/`. Each breaks one rule. The crash explorer, or the `cargo test` that its text names,
//!   has to find it ([`named`]).
//! - *Drawn* mutants are single-line changes, drawn at random from all that the code allows ([`drawn`], `--random N`).
//!
//! It is a crate of its own, outside the default build, because it reads Rust with `syn`, which the product does not need.

mod drawn;
mod named;
mod scratch;
// This is the kit's module without the kit, which would be rebuilt after each change of the engine.
#[path = "../../../sim/src/ground/words.rs"]
mod words;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let is_drawn = words.iter().any(|word| word == "--random");
    let done = if is_drawn { drawn::command(&words) } else { named::command(&words) };
    done.unwrap_or_else(|error| {
        eprintln!("mutants: {error}");
        ExitCode::from(2)
    })
}
