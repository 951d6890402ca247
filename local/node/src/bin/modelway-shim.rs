//! The shim as a program of its own, for tests; the product runs it as a subcommand of its one binary.

fn main() -> std::process::ExitCode {
    modelway_node::shim::main(std::env::args_os().skip(1))
}
