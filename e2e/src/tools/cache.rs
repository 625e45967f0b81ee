//! Where built things are kept, and under which name.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};

use super::Tool;
use super::recipe::Recipe;

/// The folder of the repository that this crate was built from.
pub fn repository_root() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest)
}

/// The folder for what may be built once and kept: `GPU_MANAGER_CACHE`, or `gpu-manager` in the user's cache.
pub fn cache_dir() -> Result<PathBuf> {
    let variable = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    variable("GPU_MANAGER_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|dir| dir.join("gpu-manager")))
        .or_else(|| variable("HOME").map(|dir| dir.join(".cache/gpu-manager")))
        .context("no cache folder: set HOME, or GPU_MANAGER_CACHE to a folder with 2 GiB of space")
}

/// The pins of one family.
pub(super) struct Family {
    /// Folder with `go.mod` and `go.sum`.
    pub dir: PathBuf,
    /// Text of `go.mod`.
    pub go_mod: String,
    go_sum: String,
}

impl Family {
    pub(super) fn read(name: &str) -> Result<Self> {
        let dir = repository_root().join("hack/tools").join(name);
        let read = |file: &str| {
            let path = dir.join(file);
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        Ok(Self {
            go_mod: read("go.mod")?,
            go_sum: read("go.sum")?,
            dir,
        })
    }
}

/// The name of the folder for exactly these binaries: a digest over everything that goes into them.
pub(super) fn key(go_version: &str, flags: &[&str]) -> Result<String> {
    let mut digest = Sha256::new();
    let mut add = |part: &str| {
        // The length in front keeps neighbours apart.
        digest.update(part.len().to_le_bytes());
        digest.update(part);
    };
    add(go_version);
    add(std::env::consts::OS);
    add(std::env::consts::ARCH);
    for flag in flags {
        add(flag);
    }
    for tool in Tool::ALL {
        let recipe = Recipe::of(tool);
        let family = Family::read(recipe.family)?;
        add(tool.file_name());
        add(recipe.package);
        add(&recipe.ldflags(&family.go_mod)?);
        add(&family.go_mod);
        add(&family.go_sum);
    }
    let digest: [u8; 32] = digest.finalize().into();
    // Half of the digest is plenty for a folder name.
    Ok(digest
        .first_chunk()
        .copied()
        .map(u128::from_be_bytes)
        .map_or_else(String::new, |id| format!("{id:032x}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_stable_and_follows_its_inputs() {
        let key_of = |go, flags: &[&str]| key(go, flags).unwrap();
        assert_eq!(
            key_of("go1.26.8", &["-trimpath"]),
            key_of("go1.26.8", &["-trimpath"])
        );
        assert_ne!(
            key_of("go1.26.8", &["-trimpath"]),
            key_of("go1.26.9", &["-trimpath"])
        );
        assert_ne!(key_of("go1.26.8", &["-trimpath"]), key_of("go1.26.8", &[]));
    }
}
