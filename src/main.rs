//! Entry point of the `gpu-manager` binary.

fn main() {
    print!("{}", gpu_manager::crds::render().unwrap());
}
