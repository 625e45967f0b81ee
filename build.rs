//! Recompiles when a file of the chart catalogue is added, changed or removed.

fn main() {
    println!("cargo::rerun-if-changed=chart-values");
}
