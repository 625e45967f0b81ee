//! The CRDs that the charts brought: they go where nobody else has objects of their kinds, or who keeps them.
//!
//! Those of NVIDIA go together and those of Node Feature Discovery go together: who has objects of one kind runs a controller that
//! expects the others.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, PartialObjectMeta};
use kube::{Api, Client, ResourceExt as _};

use super::{gone, nfd, pages};
use crate::api::ANNOTATION_SPEC_DIGEST;
use crate::drift::{Kind, ObjectRef};
use crate::facts::{HelmOwner, InstanceKind, Left, Neighbour, Remedy, first_few};
use crate::kube_api::{API_DEADLINE, ApiError, deadline, found};
use crate::observe::reduce;

/// Whose CRDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Nvidia,
    NodeFeatureDiscovery,
}

impl Family {
    const fn group(self) -> &'static str {
        match self {
            Self::Nvidia => "nvidia.com",
            Self::NodeFeatureDiscovery => nfd::GROUP,
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Nvidia => "the CRDs of NVIDIA",
            Self::NodeFeatureDiscovery => "the CRDs of Node Feature Discovery",
        }
    }

    /// True for the CRD of that name, `<plural>.<group>`.
    fn has(self, crd: &str) -> bool {
        let group = crd.split_once('.').map_or("", |(_, group)| group);
        let rest = group.strip_suffix(self.group());
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }
}

/// What is left of both. `others_nfd` is somebody else's Node Feature Discovery.
pub(super) async fn crds(client: &Client, others_nfd: Option<&Neighbour>) -> Result<Left, ApiError> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let all = pages(&api, "list CustomResourceDefinitions").await?;
    let mut left = Left::default();
    for family in [Family::Nvidia, Family::NodeFeatureDiscovery] {
        let present = all.iter().filter(|crd| family.has(&crd.name_any()));
        let (ours, others): (Vec<_>, Vec<_>) =
            present.partition(|crd| crd.annotations().contains_key(ANNOTATION_SPEC_DIGEST));
        if !others.is_empty() {
            let names = first_few(others.iter().map(|crd| crd.name_any()));
            left.stays
                .push(format!("CRD {names}, which the module did not bring"));
        }
        if let (false, Family::NodeFeatureDiscovery, Some(other)) = (ours.is_empty(), family, others_nfd) {
            left.stays.push(format!("{}, which {other} uses", family.words()));
            continue;
        }
        let mut of_family = Left::default();
        for crd in ours {
            one(client, crd, &mut of_family).await?;
        }
        if of_family.stays.is_empty() {
            // A kind waits for what is left of it to end.
            let ends = of_family.objects.iter().any(|leftover| {
                leftover.remedy == Remedy::Wait && leftover.object.kind != ObjectRef::crd("").kind
            });
            let due = of_family.objects.into_iter();
            left.objects
                .extend(due.filter(|leftover| !ends || !matches!(leftover.remedy, Remedy::DeleteUnused(_))));
        } else {
            let whose = first_few(of_family.stays.iter());
            let words = family.words();
            left.stays
                .push(format!("{words}, since somebody else has {whose}"));
        }
    }
    Ok(left)
}

/// The CRD, the objects of its kind that the release has left, and by their names those that are somebody else's.
async fn one(
    client: &Client,
    crd: &PartialObjectMeta<CustomResourceDefinition>,
    left: &mut Left,
) -> Result<(), ApiError> {
    let name = crd.name_any();
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let what = format!("read CustomResourceDefinition {name}");
    let Some(read) = found(deadline(API_DEADLINE, what, api.get(&name)).await)? else {
        return Ok(());
    };
    let mut leftover = gone(crd, ObjectRef::crd("").kind);
    if let Some(instances) = instance_kind(&read) {
        let (group, version) = instances.kind.api_version.split_once('/').unwrap_or_default();
        let gvk = GroupVersionKind::gvk(group, version, &instances.kind.kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, &instances.plural);
        let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
        let what = format!("list {}", resource.plural);
        for object in found(pages(&api, &what).await)?.unwrap_or_default() {
            if is_of_release(&object, &resource) {
                left.objects.push(gone(&object, instances.kind.clone()));
            } else {
                left.stays
                    .push(format!("{} {}", instances.kind.kind, object.name_any()));
            }
        }
        if leftover.remedy == Remedy::Delete {
            leftover.remedy = Remedy::DeleteUnused(instances);
        }
    }
    // After what is left of the kind.
    left.objects.push(leftover);
    Ok(())
}

/// The kind that a CRD declares, in a version that is served; `None` where none is.
fn instance_kind(crd: &CustomResourceDefinition) -> Option<InstanceKind> {
    let spec = &crd.spec;
    let version = spec.versions.iter().find(|version| version.served)?;
    Some(InstanceKind {
        kind: Kind::new(&format!("{}/{}", spec.group, version.name), &spec.names.kind),
        plural: spec.names.plural.clone(),
    })
}

/// True for what the release has made, or its Node Feature Discovery, which has ended by now.
fn is_of_release(object: &PartialObjectMeta<DynamicObject>, kind: &ApiResource) -> bool {
    let owner = reduce::owner(&object.metadata);
    owner.is_some_and(|owner| HelmOwner::is_module_release(&owner)) || nfd::is_feature_of_stack(kind, object)
}

/// Whether there is an object of that kind.
pub async fn is_in_use(client: &Client, instances: &InstanceKind) -> Result<bool, ApiError> {
    let (group, version) = instances.kind.api_version.split_once('/').unwrap_or_default();
    let gvk = GroupVersionKind::gvk(group, version, &instances.kind.kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, &instances.plural);
    let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
    let one = ListParams::default().limit(1);
    let what = format!("list {}", resource.plural);
    let list = found(deadline(API_DEADLINE, what, api.list_metadata(&one)).await)?;
    Ok(list.is_some_and(|list| !list.items.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crds_are_told_by_their_group() {
        let nvidia = ["clusterpolicies.nvidia.com", "computedomains.resource.nvidia.com"];
        assert!(nvidia.iter().all(|crd| Family::Nvidia.has(crd)));
        for other in ["nodefeatures.nfd.k8s-sigs.io", "xs.notnvidia.com", "nvidia.com"] {
            assert!(!Family::Nvidia.has(other), "{other}");
        }
        assert!(Family::NodeFeatureDiscovery.has("nodefeatures.nfd.k8s-sigs.io"));
    }

    #[test]
    fn what_bears_the_marks_of_the_release_is_its_own() {
        let rules = ApiResource::from_gvk(&GroupVersionKind::gvk(nfd::GROUP, "v1alpha1", "NodeFeatureRule"));
        let object = |release: &str| {
            let annotations = serde_json::json!({ "meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": "gpu-operator" });
            serde_json::from_value(
                serde_json::json!({ "metadata": { "name": "a", "annotations": annotations } }),
            )
            .unwrap()
        };
        assert!(is_of_release(&object("gpu-operator"), &rules));
        assert!(!is_of_release(&object("another"), &rules));
    }
}
