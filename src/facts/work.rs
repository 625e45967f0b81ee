//! Pods outside of NVIDIA's stack that use a GPU: what a change of the driver would interrupt.

use std::fmt;

use super::first_few;

/// A Pod that uses a GPU.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GpuPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The node that it is bound to.
    pub node: String,
}

/// GPU work on some nodes, as read at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkFacts {
    /// Every Pod that uses a GPU there, in the order of namespaces and names.
    Read(Vec<GpuPod>),
    /// Such Pods as they were a moment ago, at least one: others may have come since.
    Remembered(Vec<GpuPod>),
    /// They cannot be read, for this reason: there may be some.
    Unreadable(String),
}

impl WorkFacts {
    /// True where it is known that no Pod uses a GPU.
    pub fn is_idle(&self) -> bool {
        *self == Self::Read(Vec::new())
    }

    /// Whether Pods use GPUs of that node, and where that is not known they may; `None`: it has to be read anew.
    pub fn is_used(&self, node: &str) -> Option<bool> {
        match self {
            Self::Read(pods) => Some(pods.iter().any(|pod| pod.node == node)),
            Self::Remembered(pods) => pods.iter().any(|pod| pod.node == node).then_some(true),
            Self::Unreadable(_) => Some(true),
        }
    }

    /// The same a moment later; `None` where no Pod was there, since one may be by now.
    #[must_use]
    pub fn remembered(&self) -> Option<Self> {
        match self {
            Self::Read(pods) | Self::Remembered(pods) => {
                (!pods.is_empty()).then(|| Self::Remembered(pods.clone()))
            }
            Self::Unreadable(why) => Some(Self::Unreadable(why.clone())),
        }
    }
}

/// Pods in words for the status: how many, in which namespaces, and the first three by name.
#[derive(Clone, Copy, Debug)]
pub struct PodList<'a>(pub &'a [GpuPod]);

impl fmt::Display for PodList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pods = self.0;
        let mut namespaces: Vec<_> = pods.iter().map(|pod| pod.namespace.as_str()).collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        if let [pod] = pods {
            return write!(f, "1 Pod that uses a GPU ({}/{})", pod.namespace, pod.name);
        }
        let names = pods.iter().map(|pod| format!("{}/{}", pod.namespace, pod.name));
        write!(
            f,
            "{} Pods that use GPUs in {} ({})",
            pods.len(),
            count(namespaces.len()),
            first_few(names)
        )
    }
}

fn count(namespaces: usize) -> String {
    if namespaces == 1 {
        "1 namespace".to_owned()
    } else {
        format!("{namespaces} namespaces")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_reading_tells_of_no_node_that_it_is_idle() {
        let pod = GpuPod {
            namespace: "team".to_owned(),
            name: "train".to_owned(),
            node: "gpu-0".to_owned(),
        };
        let read = WorkFacts::Read(vec![pod]);
        assert_eq!(
            (read.is_used("gpu-0"), read.is_used("gpu-1")),
            (Some(true), Some(false))
        );
        let old = read.remembered().unwrap();
        assert_eq!((old.is_used("gpu-0"), old.is_used("gpu-1")), (Some(true), None));
        assert_eq!(WorkFacts::Read(Vec::new()).remembered(), None);
        let unreadable = WorkFacts::Unreadable("no".to_owned());
        assert_eq!(unreadable.remembered().unwrap().is_used("gpu-0"), Some(true));
    }

    #[test]
    fn a_list_of_pods_stays_short() {
        let pod = |namespace: &str, name: &str| GpuPod {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            node: "gpu-0".to_owned(),
        };
        let all = [pod("a", "x"), pod("a", "y"), pod("b", "x"), pod("c", "x")];
        assert_eq!(PodList(&all[..1]).to_string(), "1 Pod that uses a GPU (a/x)");
        assert_eq!(
            PodList(&all[..2]).to_string(),
            "2 Pods that use GPUs in 1 namespace (a/x, a/y)"
        );
        assert_eq!(
            PodList(&all).to_string(),
            "4 Pods that use GPUs in 3 namespaces (a/x, a/y, b/x and 1 more)"
        );
    }
}
