//! Applies the CRDs of a chart and its subchart before Helm runs.
//!
//! Helm never updates CRDs, and NVIDIA's hook that does needs a schedulable node. Server-side apply with force leaves no
//! conflict with whoever applied them before. Nothing is sent where the same spec is already there.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use futures::future::try_join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::api::{ANNOTATION_SPEC_DIGEST, KYMA_MODULE, LABEL_KYMA_MODULE};
use crate::desired::digest;
use crate::facts::CrdFacts;
use crate::helm::{Helm, HelmError};
use crate::kube_api::{self, ApiError};
use crate::plan::NfdCrds;

/// API group of NFD, whose CRDs other users of NFD may have installed.
const NFD_GROUP: &str = "nfd.k8s-sigs.io";

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

/// Applies those CRDs of the chart that are not there yet in this form. `present` are the CRDs of the cluster, `nfd` says which of
/// Node Feature Discovery's count.
pub async fn apply(
    client: &Client,
    helm: &Helm,
    archive: &Path,
    present: &BTreeMap<String, CrdFacts>,
    nfd: NfdCrds,
) -> Result<(), CrdError> {
    let documents = helm.show_crds(archive).await?;
    let crds = parse(&documents).map_err(|reason| CrdError::Unreadable {
        archive: archive
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        reason,
    })?;
    let due = crds.into_iter().filter(|crd| is_due(crd, present, nfd));
    try_join_all(due.map(|crd| apply_one(client, crd))).await?;
    Ok(())
}

fn is_due(crd: &Crd, present: &BTreeMap<String, CrdFacts>, nfd: NfdCrds) -> bool {
    let of_nfd = crd.spec["group"] == NFD_GROUP;
    if of_nfd && nfd == NfdCrds::None {
        return false;
    }
    match present.get(&crd.name) {
        None => true,
        Some(CrdFacts {
            spec_digest: Some(known),
        }) => *known != crd.spec_digest,
        // Somebody else's. NFD's may be of another version and in use; NVIDIA's are of use to no one else.
        Some(CrdFacts { spec_digest: None }) => !of_nfd || nfd == NfdCrds::All,
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
    kube_api::apply(&api, &name, &object).await?;
    tracing::info!(crd = name, "CRD applied");
    let established = await_condition(api, &name, is_crd_established());
    match tokio::time::timeout(ESTABLISHED_LIMIT, established).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(CrdError::NotEstablished(name)),
    }
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
    fn only_what_is_missing_or_other_is_sent() {
        let [nvidia, nfd] = <[Crd; 2]>::try_from(parse(DOCUMENTS).unwrap()).unwrap();
        let with = |crd: &Crd, spec_digest: Option<&str>| {
            let spec_digest = spec_digest.map(ToOwned::to_owned);
            BTreeMap::from([(crd.name.clone(), CrdFacts { spec_digest })])
        };
        for (crd, whose) in [
            (&nvidia, NfdCrds::All),
            (&nvidia, NfdCrds::None),
            (&nfd, NfdCrds::All),
            (&nfd, NfdCrds::Own),
        ] {
            assert!(is_due(crd, &BTreeMap::new(), whose));
            assert!(!is_due(crd, &with(crd, Some(&crd.spec_digest)), whose));
            assert!(is_due(crd, &with(crd, Some("older")), whose));
            let in_others_use = crd.name == nfd.name && whose == NfdCrds::Own;
            assert_eq!(is_due(crd, &with(crd, None), whose), !in_others_use);
        }
        for present in [BTreeMap::new(), with(&nfd, None), with(&nfd, Some("older"))] {
            assert!(!is_due(&nfd, &present, NfdCrds::None), "{present:?}");
        }
    }
}
