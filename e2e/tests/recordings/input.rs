//! The recorded files, and the clusters that are rebuilt from them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use e2e::simulated::memory::Memory;
use e2e::simulated::names;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::core::DynamicObject;
use serde::Serialize;
use serde_json::{Value, json};

/// A UID with which both recorded DaemonSet names come out.
///
/// The names hash the NVIDIADriver's UID and a kernel; the UID itself was not recorded. This one was
/// computed so that the first name fits; that the second fits too shows that the formula is right.
pub const DRIVER_UID: &str = "00000000-0000-4000-8000-8df200001f6a";

/// The folder of recordings.
pub struct Recordings(PathBuf);

impl Recordings {
    /// The recordings, which lie outside the repository; `None`, loudly, where they are missing.
    pub fn open() -> Option<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/recordings");
        if folder.is_dir() {
            return Some(Self(folder));
        }
        let missing = format!("NO RECORDINGS IN {}", folder.display());
        assert!(
            std::env::var("REQUIRE_TEST_DATA").as_deref() != Ok("true"),
            "{missing}"
        );
        eprintln!("{missing}: THE COMPARISON WITH NVIDIA'S REAL CONTROLLER IS LEFT OUT");
        None
    }

    pub fn text(&self, file: &str) -> Result<String> {
        fs::read_to_string(self.0.join(file)).with_context(|| format!("The recording {file} cannot be read."))
    }

    pub fn value(&self, file: &str) -> Result<Value> {
        serde_saphyr::from_str(&self.text(file)?).with_context(|| format!("The recording {file} is no YAML."))
    }

    /// The items of a recorded list.
    pub fn list(&self, file: &str) -> Result<Vec<Value>> {
        let value = self.value(file)?;
        value["items"]
            .as_array()
            .cloned()
            .with_context(|| format!("The recording {file} is no list."))
    }

    /// A recorded custom resource as a user made it: without its status.
    pub fn object(&self, file: &str) -> Result<DynamicObject> {
        let mut object: DynamicObject = serde_json::from_value(self.value(file)?)?;
        object.data.as_object_mut().map(|fields| fields.remove("status"));
        object.metadata.uid = Some(format!("uid-of-{}", object.name_any()));
        Ok(object)
    }

    /// A recorded node as NFD left it: without what the controller and the kubelet added later.
    pub fn node(&self, file: &str, name: &str, kernel: &str) -> Result<Node> {
        let mut node: Node = serde_json::from_value(self.value(file)?)?;
        node.metadata.name = Some(name.to_owned());
        node.labels_mut().retain(|key, _| !key.starts_with("nvidia.com/"));
        node.labels_mut()
            .insert(names::KERNEL.to_owned(), kernel.to_owned());
        node.annotations_mut()
            .retain(|key, _| !key.starts_with("nvidia.com/"));
        node.annotations_mut()
            .insert(names::GPUS.to_owned(), "1".to_owned());
        let status = node.status.get_or_insert_default();
        kernel.clone_into(&mut status.node_info.get_or_insert_default().kernel_version);
        status
            .capacity
            .get_or_insert_default()
            .remove(names::GPU_RESOURCE);
        status
            .allocatable
            .get_or_insert_default()
            .remove(names::GPU_RESOURCE);
        Ok(node)
    }
}

/// The same node without a GPU.
pub fn without_gpu(mut node: Node) -> Node {
    node.labels_mut().remove(names::PCI_PRESENT);
    node.annotations_mut().remove(names::GPUS);
    node
}

/// The same node with Ubuntu on it, and all operands off.
pub fn opted_out_ubuntu(mut node: Node) -> Node {
    let labels = node.labels_mut();
    labels.insert(names::OS_ID.to_owned(), "ubuntu".to_owned());
    labels.insert(names::OS_VERSION.to_owned(), "24.04".to_owned());
    labels.insert(names::KERNEL.to_owned(), "6.8.0-50-generic".to_owned());
    labels.insert(names::DEPLOY_OPERANDS.to_owned(), "false".to_owned());
    node
}

/// The controller's Deployment, available; the recorded one named `x` as driver manager's image.
pub fn controller(version: &str) -> Result<Deployment> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": names::OPERATOR_DEPLOYMENT},
        "spec": {"selector": {}, "template": {"spec": {"containers": [{
            "name": "gpu-operator",
            "image": format!("nvcr.io/nvidia/gpu-operator:{version}"),
            "env": [{"name": "DRIVER_MANAGER_IMAGE", "value": "x"}],
        }]}}},
        "status": {"availableReplicas": 1},
    }))?)
}

/// Changes the driver branch of the NVIDIADriver.
pub fn set_branch(memory: &mut Memory, branch: &str) {
    memory.view.nvidia_drivers[0].data["spec"]["version"] = json!(branch);
}

/// Switches automatic driver changes of the NVIDIADriver.
pub fn set_auto_upgrade(memory: &mut Memory, on: bool) {
    memory.view.nvidia_drivers[0].data["spec"]["upgradePolicy"] = json!({"autoUpgrade": on});
}

/// Objects as JSON.
pub fn to_values<T: Serialize>(objects: &[T]) -> Vec<Value> {
    objects.iter().map(|object| json!(object)).collect()
}
