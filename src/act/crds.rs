//! Applies the CRDs of a chart and its subchart before Helm runs.
//!
//! Helm never updates CRDs, and NVIDIA's hook that does needs a schedulable node. Server-side apply with force leaves no
//! conflict with whoever applied them before. Nothing is sent where the same spec is already there.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use futures::future::try_join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams};
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::api::{
    ANNOTATION_SPEC_DIGEST, ANNOTATION_SPEC_GENERATION, FIELD_MANAGER, KYMA_MODULE, LABEL_KYMA_MODULE,
};
use crate::desired::digest;
use crate::drift::ObjectRef;
use crate::facts::CrdFacts;
use crate::helm::{Helm, HelmError};
use crate::kube_api::{self, API_DEADLINE, ApiError, deadline};
use crate::plan::drift::NFD_GROUP;

/// How long the API server may take to serve a new CRD; it takes well under a second.
const ESTABLISHED_LIMIT: Duration = Duration::from_secs(30);

/// Why CRDs are not applied.
#[derive(Debug, thiserror::Error)]
pub enum CrdError {
    /// The chart's CRDs cannot be read.
    #[error("the CRDs in chart archive {archive} cannot be read: {reason}")]
    Unreadable {
        /// File name of the archive.
        archive: String,
        /// What is wrong with them.
        reason: String,
    },
    /// Helm cannot print them.
    #[error(transparent)]
    Helm(#[from] HelmError),
    /// The API server refuses one.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The API server has one and does not serve it.
    #[error("CRD {0} is not served after {secs} s, look at its conditions", secs = ESTABLISHED_LIMIT.as_secs())]
    NotEstablished(String),
}

/// A CRD as a chart brings it.
#[derive(Debug)]
struct Crd {
    name: String,
    spec: Value,
    spec_digest: String,
}

/// Which CRDs of the chart are applied.
#[derive(Clone, Copy, Debug)]
pub enum Which<'a> {
    /// Those that are not there yet in this form; these are the CRDs of the cluster.
    Due(&'a BTreeMap<String, CrdFacts>),
    /// These.
    These(&'a [ObjectRef]),
}

/// Applies CRDs of the chart.
pub async fn apply(client: &Client, helm: &Helm, archive: &Path, which: Which<'_>) -> Result<(), CrdError> {
    let documents = helm.show_crds(archive).await?;
    let unreadable = |reason| CrdError::Unreadable {
        archive: archive
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        reason,
    };
    let mut crds = parse(&documents).map_err(unreadable)?;
    match which {
        Which::Due(present) => crds.retain(|crd| is_due(crd, present)),
        Which::These(these) => {
            if let Some(strange) = these
                .iter()
                .find(|crd| crds.iter().all(|own| own.name != crd.name))
            {
                return Err(unreadable(format!("{} is not among them", strange.name)));
            }
            crds.retain(|crd| these.iter().any(|this| this.name == crd.name));
        }
    }
    try_join_all(crds.into_iter().map(|crd| apply_one(client, crd))).await?;
    Ok(())
}

fn is_due(crd: &Crd, present: &BTreeMap<String, CrdFacts>) -> bool {
    match present.get(&crd.name) {
        None => true,
        Some(CrdFacts {
            spec_digest: Some(known),
            as_applied,
            ..
        }) => *known != crd.spec_digest || !as_applied,
        // Somebody else's. NFD's may be of another version and in use; NVIDIA's are of use to no one else.
        Some(CrdFacts {
            spec_digest: None, ..
        }) => crd.spec["group"] != NFD_GROUP,
    }
}

async fn apply_one(client: &Client, crd: Crd) -> Result<(), CrdError> {
    let Crd {
        name,
        spec,
        spec_digest,
    } = crd;
    let object = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": name,
            "labels": { LABEL_KYMA_MODULE: KYMA_MODULE },
            "annotations": { ANNOTATION_SPEC_DIGEST: spec_digest },
        },
        "spec": spec,
    });
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let applied = kube_api::apply(&api, &name, &object).await?;
    note_generation(&api, &name, &applied).await?;
    tracing::info!(crd = name, "CRD applied");
    let established = await_condition(api, &name, is_crd_established());
    match tokio::time::timeout(ESTABLISHED_LIMIT, established).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(CrdError::NotEstablished(name)),
    }
}

/// Notes on the CRD which generation of its spec is ours. It is known only afterwards.
async fn note_generation(
    api: &Api<CustomResourceDefinition>,
    name: &str,
    applied: &ObjectMeta,
) -> Result<(), ApiError> {
    let generation = applied.generation.unwrap_or_default().to_string();
    let noted = applied
        .annotations
        .as_ref()
        .and_then(|all| all.get(ANNOTATION_SPEC_GENERATION));
    if noted == Some(&generation) {
        return Ok(());
    }
    let patch =
        Patch::Merge(json!({ "metadata": { "annotations": { ANNOTATION_SPEC_GENERATION: generation } } }));
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let what = format!("annotate CustomResourceDefinition {name}");
    deadline(API_DEADLINE, what, api.patch_metadata(name, &params, &patch)).await?;
    Ok(())
}

/// Reads the documents that `helm show crds` prints.
fn parse(documents: &str) -> Result<Vec<Crd>, String> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(documents).map_err(|error| error.to_string())?;
    let crds = documents
        .into_iter()
        .filter(|document| !document.is_null())
        .map(|mut document| {
            let name = document["metadata"]["name"].as_str().map(ToOwned::to_owned);
            let name = name.ok_or("one of them has no name")?;
            if document["kind"] != "CustomResourceDefinition" {
                return Err(format!("{name} is no CustomResourceDefinition"));
            }
            let spec = document["spec"].take();
            let spec_digest = digest([spec.to_string().as_bytes()]);
            Ok(Crd {
                name,
                spec,
                spec_digest,
            })
        });
    crds.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::fixtures::crd as crd_facts;

    const DOCUMENTS: &str = "---\n---\nkind: CustomResourceDefinition\nmetadata: {name: a.nvidia.com}\nspec: {group: nvidia.com}\n---\nkind: CustomResourceDefinition\nmetadata: {name: b.nfd.k8s-sigs.io}\nspec: {group: nfd.k8s-sigs.io}\n";

    #[test]
    fn documents_become_crds_with_digests() {
        let crds = parse(DOCUMENTS).unwrap();
        assert_eq!(
            crds.iter().map(|crd| crd.name.as_str()).collect::<Vec<_>>(),
            ["a.nvidia.com", "b.nfd.k8s-sigs.io"]
        );
        assert_ne!(crds[0].spec_digest, crds[1].spec_digest);
        assert!(
            parse("kind: ConfigMap\nmetadata: {name: x}\n")
                .unwrap_err()
                .contains("x is no")
        );
        assert!(
            parse("kind: CustomResourceDefinition\n")
                .unwrap_err()
                .contains("no name")
        );
        assert!(parse("a: [").is_err());
    }

    #[test]
    fn only_what_is_missing_or_other_is_sent_and_foreign_nfd_is_left_alone() {
        let [nvidia, nfd] = <[Crd; 2]>::try_from(parse(DOCUMENTS).unwrap()).unwrap();
        let with = |crd: &Crd, spec_digest: Option<&str>| {
            BTreeMap::from([(crd.name.clone(), crd_facts(spec_digest))])
        };
        for crd in [&nvidia, &nfd] {
            assert!(is_due(crd, &BTreeMap::new()));
            assert!(!is_due(crd, &with(crd, Some(&crd.spec_digest))));
            assert!(is_due(crd, &with(crd, Some("older"))));
        }
        assert!(is_due(&nvidia, &with(&nvidia, None)));
        assert!(!is_due(&nfd, &with(&nfd, None)));
    }
}
