//! How each binary is built: its family of pins, its package, and how it is told its version.

use anyhow::{Context as _, Result};
use semver::Version;

use super::Tool;

/// Go writes versions into binaries only when asked; these are the variables behind `--version`.
const KUBERNETES_VERSION: &str = "k8s.io/component-base/version";

/// The build of one binary.
pub(super) struct Recipe {
    /// Folder below `hack/tools` with the `go.mod`.
    pub family: &'static str,
    /// The module whose version is the binary's.
    pub module: &'static str,
    /// The main package.
    pub package: &'static str,
    /// Arguments that make the binary print its version.
    pub version_args: &'static [&'static str],
}

impl Recipe {
    pub(super) fn of(tool: Tool) -> Self {
        let kubernetes = |package| Self {
            family: "kubernetes",
            module: "k8s.io/kubernetes",
            package,
            version_args: &["--version"],
        };
        match tool {
            Tool::KubeApiserver => kubernetes("k8s.io/kubernetes/cmd/kube-apiserver"),
            Tool::KubeControllerManager => kubernetes("k8s.io/kubernetes/cmd/kube-controller-manager"),
            Tool::KubeScheduler => kubernetes("k8s.io/kubernetes/cmd/kube-scheduler"),
            Tool::Kubectl => Self {
                version_args: &["version", "--client"],
                ..kubernetes("k8s.io/kubernetes/cmd/kubectl")
            },
            Tool::Etcd => Self {
                family: "etcd",
                module: "go.etcd.io/etcd/server/v3",
                package: "go.etcd.io/etcd/server/v3",
                version_args: &["--version"],
            },
            Tool::Kwok => Self {
                family: "kwok",
                module: "sigs.k8s.io/kwok",
                package: "sigs.k8s.io/kwok/cmd/kwok",
                version_args: &["--version"],
            },
            Tool::Helm => Self {
                family: "helm4",
                module: "helm.sh/helm/v4",
                package: "helm.sh/helm/v4/cmd/helm",
                version_args: &["version", "--short"],
            },
            Tool::Helm3 => Self {
                family: "helm3",
                module: "helm.sh/helm/v3",
                package: "helm.sh/helm/v3/cmd/helm",
                version_args: &["version", "--short"],
            },
        }
    }

    /// The linker flags: no debug information, and the version where the module does not carry it itself.
    ///
    /// `go_mod` is the family's `go.mod`. Etcd and KWOK have their version in their source. Helm 3 takes the
    /// default Kubernetes version of `helm template` from flags as well; Helm 4 reads it from the build
    /// information, which Go always writes.
    pub(super) fn ldflags(&self, go_mod: &str) -> Result<String> {
        let version = pinned_version(go_mod, self.module)?;
        let variables = match self.family {
            "kubernetes" => vec![
                (format!("{KUBERNETES_VERSION}.gitVersion"), format!("v{version}")),
                (
                    format!("{KUBERNETES_VERSION}.gitMajor"),
                    version.major.to_string(),
                ),
                (
                    format!("{KUBERNETES_VERSION}.gitMinor"),
                    version.minor.to_string(),
                ),
                (format!("{KUBERNETES_VERSION}.gitTreeState"), "clean".to_owned()),
            ],
            "helm4" => vec![(
                "helm.sh/helm/v4/internal/version.version".to_owned(),
                format!("v{version}"),
            )],
            "helm3" => {
                let client_go = pinned_version(go_mod, "k8s.io/client-go")?;
                // client-go v0.N belongs to Kubernetes 1.N.
                let (major, minor) = ((client_go.major + 1).to_string(), client_go.minor.to_string());
                vec![
                    (
                        "helm.sh/helm/v3/internal/version.version".to_owned(),
                        format!("v{version}"),
                    ),
                    (
                        "helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor".to_owned(),
                        major.clone(),
                    ),
                    (
                        "helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor".to_owned(),
                        minor.clone(),
                    ),
                    ("helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor".to_owned(), major),
                    ("helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor".to_owned(), minor),
                ]
            }
            _ => Vec::new(),
        };
        let stamps = variables
            .iter()
            .map(|(name, value)| format!(" -X {name}={value}"));
        Ok(std::iter::once("-s -w".to_owned()).chain(stamps).collect())
    }
}

/// The version of `module` that a `go.mod` requires.
pub(super) fn pinned_version(go_mod: &str, module: &str) -> Result<Version> {
    let version = go_mod
        .lines()
        .map(|line| {
            line.trim_start()
                .trim_start_matches("require ")
                .split_whitespace()
        })
        .find_map(|mut words| (words.next() == Some(module)).then(|| words.next()).flatten())
        .with_context(|| format!("no version of {module} in its go.mod; run 'go mod tidy' there"))?;
    parse_version(version).with_context(|| format!("{module} is pinned to '{version}', which is no version"))
}

/// Reads `v1.2.3` or `1.2.3`.
pub(super) fn parse_version(text: &str) -> Option<Version> {
    Version::parse(text.trim_start_matches('v')).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GO_MOD: &str = "module x\n\nreplace k8s.io/api => k8s.io/api v0.36.3\n\n\
        tool helm.sh/helm/v3/cmd/helm\n\nrequire (\n\thelm.sh/helm/v3 v3.22.0 // indirect\n\
        \tk8s.io/client-go v0.36.2 // indirect\n)\n\nrequire sigs.k8s.io/kwok v0.8.0\n";

    #[test]
    fn versions_come_from_the_requirements() {
        assert_eq!(
            pinned_version(GO_MOD, "helm.sh/helm/v3").unwrap(),
            Version::new(3, 22, 0)
        );
        assert_eq!(
            pinned_version(GO_MOD, "sigs.k8s.io/kwok").unwrap(),
            Version::new(0, 8, 0)
        );
        assert!(pinned_version(GO_MOD, "k8s.io/api").is_err());
    }

    #[test]
    fn helm_3_learns_the_kubernetes_version_of_its_client() {
        let flags = Recipe::of(Tool::Helm3).ldflags(GO_MOD).unwrap();
        assert!(
            flags.starts_with("-s -w -X helm.sh/helm/v3/internal/version.version=v3.22.0 "),
            "{flags}"
        );
        assert!(flags.contains("chartutil.k8sVersionMajor=1 "), "{flags}");
        assert!(flags.contains("chartutil.k8sVersionMinor=36 "), "{flags}");
    }
}
