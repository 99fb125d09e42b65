//! The binary `onefold`.

fn main() -> std::process::ExitCode {
    onefold::cli::main()
}
