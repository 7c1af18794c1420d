//! The program; see the library of this crate.

fn main() -> std::process::ExitCode {
    netcliff::run()
}
