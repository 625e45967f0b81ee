//! What a release consists of, without Helm: objects that bear its marks.

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};

use super::content::{Content, is_of_release};
use super::{gone, nfd, pages};
use crate::api::STACK_CLUSTER_ROLE;
use crate::drift::Kind;
use crate::facts::{Left, Leftover};
use crate::kube_api::{ApiError, found};

/// Kinds of the charts' objects outside of any namespace, besides NVIDIA's own, which go with the stack.
fn cluster_kinds() -> [ApiResource; 3] {
    [
        ApiResource::erase::<ClusterRole>(&()),
        ApiResource::erase::<ClusterRoleBinding>(&()),
        nfd::rules(),
    ]
}

/// The objects. The ClusterRole by which it is known that something stands comes last, so that a process which begins anew finds the rest.
pub(super) async fn objects(client: &Client, is_open: bool) -> Result<Left, ApiError> {
    let mut objects = Vec::new();
    if is_open {
        objects.extend(Content::read(client).await?.of_release());
    }
    for resource in cluster_kinds() {
        let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
        let all = found(pages(&api, &format!("list {}", resource.plural)).await)?;
        let kind = Kind::new(&resource.api_version, &resource.kind);
        let ours = all.iter().flatten().filter(|object| is_of_release(object));
        objects.extend(ours.map(|object| gone(object, kind.clone())));
    }
    Ok(Left {
        objects: mark_last(objects),
        stays: Vec::new(),
    })
}

fn mark_last(objects: Vec<Leftover>) -> Vec<Leftover> {
    let is_mark = |leftover: &Leftover| {
        leftover.object.kind.kind == "ClusterRole" && leftover.object.name == STACK_CLUSTER_ROLE
    };
    let (mark, others): (Vec<_>, Vec<_>) = objects.into_iter().partition(is_mark);
    if others.is_empty() { mark } else { others }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drift::ObjectRef;
    use crate::facts::Remedy;

    #[test]
    fn what_shows_that_something_stands_goes_last() {
        let object = |kind: &str, name: &str| Leftover {
            object: ObjectRef {
                kind: Kind::new("rbac.authorization.k8s.io/v1", kind),
                namespace: None,
                name: name.to_owned(),
            },
            uid: String::new(),
            remedy: Remedy::Delete,
        };
        let (role, binding) = (
            object("ClusterRole", "gpu-operator"),
            object("ClusterRoleBinding", "gpu-operator"),
        );
        assert_eq!(mark_last(vec![role.clone(), binding.clone()]), [binding]);
        assert_eq!(mark_last(vec![role.clone()]), [role]);
    }
}
