//! `chart-values/instance-types.yaml`: instance types with NVIDIA GPUs, per cloud.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Names of instance types by cloud. A star at the end of a name stands for the rest of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct InstanceTypes(BTreeMap<String, Vec<String>>);

impl InstanceTypes {
    /// True for an instance type that is known to have an NVIDIA GPU, or that one of `more` names.
    pub fn contain(&self, instance_type: &str, more: &[String]) -> bool {
        let mut names = self.0.values().flatten().chain(more);
        names.any(|name| fits(name, instance_type))
    }

    /// A name that is not like one, with its cloud.
    pub(super) fn complaint(&self) -> Option<String> {
        let names = self.0.iter();
        let mut names = names.flat_map(|(cloud, names)| names.iter().map(move |name| (cloud, name)));
        let (cloud, name) = names.find(|(_, name)| {
            let begin = name.strip_suffix('*').unwrap_or(name);
            begin.is_empty() || begin.contains('*')
        })?;
        Some(format!(
            "instance-types.yaml has '{name}' for {cloud}: a star may stand at the end of a name only"
        ))
    }
}

fn fits(name: &str, instance_type: &str) -> bool {
    match name.strip_suffix('*') {
        Some(begin) => instance_type.starts_with(begin),
        None => instance_type == name,
    }
}
