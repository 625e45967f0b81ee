//! Diagrams: text that can be read as it is (docs/assets/*.txt), drawn as SVG beside it.

use std::fs;
use std::path::Path;

use aasvg::RenderOptions;
use anyhow::{Context, Result};

use super::Generated;
use crate::tools::repository_root;

const FOLDER: &str = "docs/assets";

/// Draws every text of the folder.
pub fn all() -> Result<Vec<Generated>> {
    let folder = repository_root().join(FOLDER);
    let mut drawn = vec![];
    for entry in fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        // The background keeps lines legible on pages of either colour.
        let options = RenderOptions::new().with_backdrop(true);
        let name = path.file_name().context("a file without a name")?;
        drawn.push(Generated {
            path: Path::new(FOLDER).join(name).with_extension("svg"),
            content: aasvg::render_with_options(&text, &options) + "\n",
        });
    }
    Ok(drawn)
}
