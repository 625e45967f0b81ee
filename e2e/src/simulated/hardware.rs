//! The GPUs that a fake machine can have.

use k8s_openapi::api::core::v1::Node;

use super::names;
use super::view::annotation;

/// A kind of GPU, with what GPU Feature Discovery says of it.
#[derive(Debug)]
pub struct Model {
    /// Its product name.
    pub product: &'static str,
    /// Its memory in MiB.
    pub memory: u32,
    /// Its architecture.
    pub family: &'static str,
    /// Its compute capability.
    pub compute: (u32, u32),
    /// Into how many slices of compute it can be partitioned (Multi-Instance GPU); 0: it cannot.
    pub slices: u32,
}

const T4: Model = Model {
    product: "Tesla-T4",
    memory: 15360,
    family: "turing",
    compute: (7, 5),
    slices: 0,
};

const A100: Model = Model {
    product: "NVIDIA-A100-SXM4-40GB",
    memory: 40960,
    family: "ampere",
    compute: (8, 0),
    slices: 7,
};

/// The GPUs of a node; a product that is not known here counts as a Tesla T4.
pub fn model(node: &Node) -> &'static Model {
    match annotation(node, names::PRODUCT) {
        Some(product) if product == A100.product => &A100,
        _ => &T4,
    }
}
