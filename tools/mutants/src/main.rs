//! `./dev mutants`: would the tests and the checkers notice? It breaks the engine on purpose, in a scratch copy, one place at a time.
//!
//! - *Named* mutants are the patches in `sim/mutants/`. Each breaks one rule. The crash explorer has to find it, or the `cargo test` that its text
//!   names ([`named`]).
//! - *Drawn* mutants are chosen by nobody: single-line changes, drawn at random from all that the code allows ([`drawn`], `--random N`).
//!
//! It is a crate of its own, outside the default build, because it reads Rust with `syn`, which the product does without.

mod drawn;
mod named;
mod scratch;
// The kit's, without the kit: it would be built anew after each change of the engine.
#[path = "../../../sim/src/words.rs"]
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
