//! What a release says about the module: `hack/deploy/release.yaml`, for one version.

use anyhow::{Context as _, Result, ensure};
use semver::Version;
use serde::Deserialize;

use crate::tools::repository_root;

const FACTS: &str = "hack/deploy/release.yaml";

/// Longest version that Kyma's ModuleTemplate takes.
const LONGEST_VERSION: usize = 32;

/// The file.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Facts {
    module: String,
    component: String,
    repository: String,
    image: String,
    icon: String,
    releases: Vec<Decision>,
}

/// Whether one release needs a maintenance window.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Decision {
    version: Version,
    requires_downtime: bool,
    because: String,
}

/// One release.
#[derive(Clone, Debug)]
pub struct Release {
    facts: Facts,
    version: Version,
    requires_downtime: bool,
}

impl Release {
    /// The release of this version: `1.2.3`, or with one word behind it `1.2.3-experimental`.
    pub fn new(version: &str) -> Result<Self> {
        let path = repository_root().join(FACTS);
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {FACTS}"))?;
        let facts = serde_saphyr::from_str(&text).with_context(|| format!("{FACTS} is not understood"))?;
        Self::of(facts, version)
    }

    /// The release of the version that the source has.
    pub fn current() -> Result<Self> {
        Self::new(env!("CARGO_PKG_VERSION"))
    }

    fn of(facts: Facts, version: &str) -> Result<Self> {
        let version = parse(version)?;
        let finished = Version::new(version.major, version.minor, version.patch);
        let decided = |version: &Version| {
            facts
                .releases
                .iter()
                .find(|decision| decision.version == *version)
        };
        let decision = decided(&version)
            .or_else(|| decided(&finished))
            .with_context(|| {
                format!("whether {version} requires a downtime is not decided: add an entry to {FACTS}")
            })?;
        ensure!(
            !decision.because.is_empty(),
            "{FACTS} gives no reason for {version}"
        );
        Ok(Self {
            requires_downtime: decision.requires_downtime,
            version,
            facts,
        })
    }

    /// The same with another image, named without its tag.
    pub fn with_image(mut self, image: &str) -> Result<Self> {
        let tagged = image
            .rsplit('/')
            .next()
            .is_some_and(|name| name.contains([':', '@']));
        ensure!(
            !image.is_empty() && !tagged,
            "the image is '{image}': give it without tag, which is the version"
        );
        image.clone_into(&mut self.facts.image);
        Ok(self)
    }

    /// The same with the files in another repository of GitHub's.
    pub fn with_repository(mut self, url: &str) -> Result<Self> {
        ensure!(
            url.starts_with("https://"),
            "the repository is '{url}': Kyma takes https alone"
        );
        url.trim_end_matches('/').clone_into(&mut self.facts.repository);
        Ok(self)
    }

    /// The version, without a `v`.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// Name of the module.
    pub fn module(&self) -> &str {
        &self.facts.module
    }

    /// Name of the module as a component of the Open Component Model.
    pub fn component(&self) -> &str {
        &self.facts.component
    }

    /// The operator's image without its tag.
    pub fn image(&self) -> &str {
        &self.facts.image
    }

    /// Link of the icon.
    pub fn icon(&self) -> &str {
        &self.facts.icon
    }

    /// The repository with the source.
    pub fn repository(&self) -> &str {
        &self.facts.repository
    }

    /// What users read first.
    pub fn documentation(&self) -> String {
        format!(
            "{}/blob/{}/docs/user/README.md",
            self.facts.repository, self.version
        )
    }

    /// Where a file of this release can be downloaded.
    pub fn download(&self, file: &str) -> String {
        format!(
            "{}/releases/download/{}/{file}",
            self.facts.repository, self.version
        )
    }

    /// Name of the ModuleTemplate.
    pub fn template_name(&self) -> String {
        format!("{}-{}", self.facts.module, self.version)
    }

    /// Whether an upgrade to it waits for the maintenance window.
    pub fn requires_downtime(&self) -> bool {
        self.requires_downtime
    }
}

/// Reads a version in the form that modulectl and the schema of ModuleTemplate both take.
fn parse(text: &str) -> Result<Version> {
    let version = Version::parse(text)
        .with_context(|| format!("the version '{text}' is not of the form 1.2.3 or 1.2.3-word"))?;
    let word = version.pre.as_str();
    ensure!(
        version.build.is_empty()
            && !word.contains('.')
            && !word.starts_with(|first: char| first.is_ascii_digit()),
        "the version '{text}' has more than one word, beginning with a letter, behind 1.2.3"
    );
    ensure!(
        !text.contains("---"),
        "the version '{text}' has three hyphens, at which Kyma's CLI cuts manifests"
    );
    ensure!(
        text.len() <= LONGEST_VERSION,
        "the version '{text}' is longer than {LONGEST_VERSION} characters"
    );
    Ok(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        let decision = |version: &str, requires_downtime| Decision {
            version: version.parse().unwrap(),
            requires_downtime,
            because: "a test".to_owned(),
        };
        Facts {
            module: "gpu".to_owned(),
            component: "kyma-project.io/module/gpu".to_owned(),
            repository: "https://git.example/gpu-manager".to_owned(),
            image: "registry.example/gpu-manager".to_owned(),
            icon: "https://git.example/icon.svg".to_owned(),
            releases: vec![decision("1.1.0", true), decision("1.0.0", false)],
        }
    }

    #[test]
    fn a_version_that_kyma_would_refuse_is_refused() {
        for good in ["1.1.0", "1.0.0-experimental", "1.1.0-rc1"] {
            assert!(Release::of(facts(), good).is_ok(), "{good}");
        }
        let long = format!("1.1.0-{}", "x".repeat(27));
        for wrong in [
            "v1.1.0",
            "1.1",
            "1.1.0-rc.1",
            "1.1.0-1",
            "1.1.0+build",
            "1.1.0-a---b",
            "main",
            "",
            &long,
        ] {
            assert!(Release::of(facts(), wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_downtime_is_decided_for_each_version() {
        let required = |version| Release::of(facts(), version).map(|release| release.requires_downtime());
        assert!(required("1.1.0").unwrap() && required("1.1.0-rc1").unwrap());
        assert!(!required("1.0.0").unwrap());
        let undecided = required("1.2.0").unwrap_err().to_string();
        assert!(undecided.contains("is not decided"), "{undecided}");
    }

    #[test]
    fn an_image_has_no_tag_of_its_own() {
        let with = |image| Release::of(facts(), "1.1.0").unwrap().with_image(image);
        assert_eq!(
            with("localhost:5000/a/gpu-manager").unwrap().image(),
            "localhost:5000/a/gpu-manager"
        );
        assert!(
            with("a/gpu-manager:1").is_err() && with("a/gpu-manager@sha256:0").is_err() && with("").is_err()
        );
    }

    #[test]
    fn the_source_has_a_version_that_is_decided() {
        assert_eq!(
            Release::current().unwrap().version().to_string(),
            env!("CARGO_PKG_VERSION")
        );
    }
}
