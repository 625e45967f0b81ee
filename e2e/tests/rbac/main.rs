//! Are the rights in `hack/deploy` enough for helm and the real charts, and not too many? Everything here but
//! the set-up runs with a token of the manager's own ServiceAccount.

mod admission;
mod manager;

use anyhow::{Context as _, Result, bail, ensure};
use e2e::charts::Charts;
use e2e::cluster::{Cluster, FakeNode, Mark, Options};
use e2e::rbac::{RuleSet, Sources, derive, versions};
use e2e::tools::{Tool, Tools, repository_root};
use e2e::wait::eventually;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{Api, ListParams};

use manager::{Manager, RELEASE, SOON, values_dir};

/// How the API server calls the manager's ServiceAccount.
const USER: &str = "system:serviceaccount:gpu-manager:gpu-manager";

/// NVIDIA's charts; the stand-in's rights would say nothing about theirs.
async fn charts() -> Result<Option<Charts>> {
    let versions = versions()?;
    let versions: Vec<_> = versions.iter().map(String::as_str).collect();
    Charts::nvidia(&Tools::ensure()?, &versions, "the test of the rights").await
}

/// Fails unless the API server refused for want of rights.
fn forbidden<T>(what: &str, answer: Result<T, kube::Error>) -> Result<()> {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
        Err(error) => Err(error).context(format!("{what} failed, but for another reason")),
        Ok(_) => bail!("{what} was allowed"),
    }
}

/// The manager's requests since a mark that were refused for want of rights.
fn refused(cluster: &Cluster, since: Mark) -> Result<Vec<String>> {
    let events = cluster.audit().since(since)?.into_iter();
    let refused = events
        .filter(|event| event.user.username == USER)
        .filter(|event| {
            event
                .response_status
                .as_ref()
                .is_some_and(|status| status.code == 403)
        });
    Ok(refused
        .map(|event| format!("{} {}", event.verb, event.request_uri))
        .collect())
}

#[tokio::test]
async fn helm_works_with_the_rights_of_the_service_account() -> Result<()> {
    let Some(charts) = charts().await? else {
        return Ok(());
    };
    let chart = |version: &str| charts.archive(version).display().to_string();
    let (older, newer) = (chart("26.3.3"), chart("26.7.0"));
    let cluster = Cluster::start(Options::full()).await?;
    cluster.create_node(&FakeNode::new("cpu-0")).await?;
    cluster.serve_pod_monitors().await?;
    let manager = Manager::install(&cluster).await?;

    // The API server learns of new roles and bindings with a short delay.
    let secrets: Api<Secret> = Api::namespaced(manager.client.clone(), RELEASE);
    eventually("the manager's rights in its namespace", SOON, async || {
        manager.apply_namespace(RELEASE).await?;
        let role = "gpu-manager-release";
        manager.apply_binding(role, role).await?;
        secrets.list(&ListParams::default()).await?;
        Ok(())
    })
    .await?;
    let start = cluster.audit().mark()?;

    manager.apply_crds(&older).await?;
    manager.upgrade(&older, "gardenlinux.yaml")?;
    manager.apply_crds(&newer).await?;
    manager.upgrade(&newer, "options.yaml")?;
    manager.upgrade(&newer, "existing-nfd.yaml")?;
    manager.rollback("2")?;
    let revision = manager.revision()?;
    ensure!(revision == 4, "the rollback should be revision 4, not {revision}");

    // Both hooks run: NVIDIA's before, Node Feature Discovery's after the removal.
    manager.uninstall()?;
    let left = secrets.list(&ListParams::default()).await?.items;
    ensure!(left.is_empty(), "{} Secrets are left in {RELEASE}", left.len());

    // helm goes on after some refusals, so none may show in the API server's log either.
    let refused = refused(&cluster, start)?;
    ensure!(refused.is_empty(), "refused: {refused:#?}");
    Ok(())
}

#[tokio::test]
async fn the_service_account_may_not_do_what_nothing_needs() -> Result<()> {
    let cluster = Cluster::start(Options::api_server_only()).await?;
    let manager = Manager::install(&cluster).await?;
    eventually("the manager's rights", SOON, async || {
        Ok(manager.apply_namespace(RELEASE).await?)
    })
    .await?;

    let list = ListParams::default();
    let everywhere: Api<Secret> = Api::all(manager.client.clone());
    forbidden("listing all Secrets", everywhere.list(&list).await)?;
    let system: Api<Secret> = Api::namespaced(manager.client.clone(), "kube-system");
    forbidden("listing Secrets of kube-system", system.list(&list).await)?;
    forbidden("reading a Secret of kube-system", system.get("any").await)?;

    let answer = manager.apply_namespace("other").await;
    forbidden("creating another namespace", answer)?;
    let answer = manager.apply_binding("other", "gpu-manager-release").await;
    forbidden("a RoleBinding of another name", answer)?;
    let answer = manager
        .apply_binding("gpu-manager-release", "cluster-admin")
        .await;
    forbidden("binding cluster-admin", answer)
}

#[tokio::test]
async fn the_generated_files_are_up_to_date() -> Result<()> {
    let Some(charts) = charts().await? else {
        return Ok(());
    };
    let derived = derive(&Sources {
        helm: Tools::ensure()?.path(Tool::Helm),
        charts: charts.dir().to_owned(),
        values: values_dir(),
    })?;
    for (path, wanted) in derived.files(repository_root())? {
        ensure!(
            std::fs::read_to_string(&path)? == wanted,
            "{} is out of date: run `make rbac` and commit the file",
            path.display()
        );
    }
    Ok(())
}

/// Rules of a ClusterRole in `hack/deploy/rbac`.
fn shipped(role: &str) -> Result<RuleSet> {
    let text = std::fs::read_to_string(repository_root().join("hack/deploy/rbac/release.yaml"))?;
    let roles: Vec<ClusterRole> = serde_saphyr::from_multiple(&text)?;
    let role = roles
        .into_iter()
        .find(|found| found.metadata.name.as_deref() == Some(role))
        .with_context(|| format!("no ClusterRole {role}"))?;
    let mut rights = RuleSet::default();
    for rule in role.rules.iter().flatten() {
        rights.add(rule);
    }
    Ok(rights)
}

/// Where NVIDIA's charts are missing, the stand-in must install with the rights that were derived from theirs.
#[tokio::test]
async fn the_stand_in_needs_no_further_rights() -> Result<()> {
    let tools = Tools::ensure()?;
    let versions = versions()?;
    let versions: Vec<_> = versions.iter().map(String::as_str).collect();
    let charts = Charts::stand_in(&tools, &versions).await?;
    let needed = derive(&Sources {
        helm: tools.path(Tool::Helm),
        charts: charts.dir().to_owned(),
        values: values_dir(),
    })?;
    for (role, rights) in [
        ("gpu-manager-release-cluster", needed.cluster),
        ("gpu-manager-release", needed.namespaced),
    ] {
        let missing = rights.all().without(&shipped(role)?).rules();
        ensure!(missing.is_empty(), "{role} lacks {missing:#?}");
    }
    Ok(())
}
