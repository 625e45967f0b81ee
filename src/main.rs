//! Entry point of the `gpu-manager` binary.

fn main() {}
