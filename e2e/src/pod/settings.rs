//! What the Deployment says.

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Container, EnvVar, PodSpec};

use super::{API_PORT, Settings};

/// Bytes of an `emptyDir` without a limit.
const NO_LIMIT: u64 = 1 << 30;

pub(super) fn of_deployment(yaml: &str, namespace: &str, pod: &str) -> Result<Settings> {
    let deployment: Deployment = serde_saphyr::from_str(yaml)?;
    let spec = deployment
        .spec
        .and_then(|spec| spec.template.spec)
        .context("no Pod")?;
    let [container] = spec.containers.as_slice() else {
        bail!("not one container")
    };
    hardened(&spec, container)?;
    let security = spec.security_context.as_ref().context("no securityContext")?;
    let user = security.run_as_user.context("no runAsUser")?;
    // An image has its path from its base.
    let mut environment = vec![
        ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
        ("KUBERNETES_SERVICE_HOST".to_owned(), "127.0.0.1".to_owned()),
        ("KUBERNETES_SERVICE_PORT".to_owned(), API_PORT.to_string()),
    ];
    for variable in container.env.iter().flatten() {
        environment.push((variable.name.clone(), value(variable, namespace, pod)?));
    }
    let mut command = vec!["/usr/local/bin/gpu-manager".to_owned()];
    command.extend(container.args.clone().unwrap_or_default());
    Ok(Settings {
        root: "".into(),
        image: vec![],
        account: "".into(),
        empty_dirs: empty_dirs(&spec, container)?,
        command,
        environment,
        user: user.try_into()?,
        api: "".into(),
        ports: vec![],
    })
}

/// Fails where the Deployment promises less than what the Pod is run with.
fn hardened(spec: &PodSpec, container: &Container) -> Result<()> {
    let security = container
        .security_context
        .as_ref()
        .context("no securityContext")?;
    let drop = security
        .capabilities
        .as_ref()
        .and_then(|capabilities| capabilities.drop.as_ref());
    ensure!(
        security.read_only_root_filesystem == Some(true)
            && security.allow_privilege_escalation == Some(false)
            && drop.is_some_and(|drop| drop == &["ALL"])
            && spec.host_network.is_none()
            && spec.host_pid.is_none(),
        "the Deployment gives the container more than the Pod-like run: {security:?}"
    );
    Ok(())
}

fn value(variable: &EnvVar, namespace: &str, pod: &str) -> Result<String> {
    if let Some(value) = &variable.value {
        return Ok(value.clone());
    }
    let source = variable
        .value_from
        .as_ref()
        .and_then(|from| from.field_ref.as_ref());
    match source.map(|field| field.field_path.as_str()) {
        Some("metadata.namespace") => Ok(namespace.to_owned()),
        Some("metadata.name") => Ok(pod.to_owned()),
        other => bail!("where {} comes from is not known here: {other:?}", variable.name),
    }
}

fn empty_dirs(spec: &PodSpec, container: &Container) -> Result<Vec<(std::path::PathBuf, u64)>> {
    let mut found = vec![];
    for mount in container.volume_mounts.iter().flatten() {
        let mut volumes = spec.volumes.iter().flatten();
        let volume = volumes
            .find(|volume| volume.name == mount.name)
            .context("no volume")?;
        let Some(folder) = &volume.empty_dir else {
            bail!("the volume {} is no emptyDir", volume.name)
        };
        let limit = match &folder.size_limit {
            Some(limit) => bytes(&limit.0)?,
            None => NO_LIMIT,
        };
        found.push((mount.mount_path.clone().into(), limit));
    }
    Ok(found)
}

fn bytes(quantity: &str) -> Result<u64> {
    let units = [("Ki", 10), ("Mi", 20), ("Gi", 30)];
    let unit = units
        .iter()
        .find_map(|(unit, shift)| Some((quantity.strip_suffix(unit)?, *shift)));
    let (number, shift) = unit.unwrap_or((quantity, 0));
    let number: u64 = number.parse().with_context(|| format!("{quantity} is no size"))?;
    Ok(number << shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::repository_root;

    #[test]
    fn the_deployment_is_read_as_it_is() {
        let path = repository_root().join("hack/deploy/base/deployment.yaml");
        let yaml = std::fs::read_to_string(path).unwrap();
        let settings = of_deployment(&yaml, "kyma-system", "gpu-manager-0").unwrap();
        assert_eq!(settings.command, ["/usr/local/bin/gpu-manager", "run"]);
        assert_eq!(settings.empty_dirs, [("/tmp".into(), 128 << 20)]);
        assert_eq!(settings.user, 65532);
        let variable = |name: &str| {
            let mut all = settings.environment.iter();
            all.find(|(known, _)| known == name)
                .map(|(_, value)| value.as_str())
        };
        assert_eq!(variable("POD_NAMESPACE"), Some("kyma-system"));
        assert_eq!(variable("POD_NAME"), Some("gpu-manager-0"));
        let open = yaml.replace("readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false");
        assert!(of_deployment(&open, "", "").is_err());
    }
}
