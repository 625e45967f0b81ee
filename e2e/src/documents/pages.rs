//! Pages of the documentation, their fenced blocks and the spans in backticks.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::tools::repository_root;

/// Pages outside of docs/.
const BESIDE: [&str; 4] = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"];

/// Where something stands: `docs/user/README.md:12`.
#[derive(Clone, Debug)]
pub struct Place {
    /// The page, from the repository's root.
    pub page: PathBuf,
    /// The line, counted from one.
    pub line: usize,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.page.display(), self.line)
    }
}

/// A fenced block.
pub struct Block {
    /// Where its first line stands.
    pub place: Place,
    /// What stands behind the fence.
    pub language: String,
    /// Its lines, without what the fence is indented by.
    pub lines: Vec<String>,
}

/// A page taken apart.
pub struct Page {
    /// Fenced blocks.
    pub blocks: Vec<Block>,
    /// What stands in backticks outside of them.
    pub spans: Vec<(Place, String)>,
    /// Lines that Markdown takes for code since they are indented.
    pub indented: Vec<(Place, String)>,
}

/// Every page.
pub fn all() -> Result<Vec<Page>> {
    let mut paths: Vec<_> = BESIDE.iter().map(PathBuf::from).collect();
    markdown(Path::new("docs"), &mut paths)?;
    // As people read them: the installation before what needs it.
    paths.sort();
    let root = repository_root();
    let paths = paths.into_iter().filter(|path| root.join(path).exists());
    paths.map(|path| read(&path)).collect()
}

fn markdown(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let entries =
        fs::read_dir(repository_root().join(folder)).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            markdown(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Page> {
    let text =
        fs::read_to_string(repository_root().join(path)).with_context(|| path.display().to_string())?;
    let mut page = Page {
        blocks: vec![],
        spans: vec![],
        indented: vec![],
    };
    let mut open: Option<(usize, Block)> = None;
    for (number, line) in text.lines().enumerate() {
        let place = Place {
            page: path.to_owned(),
            line: number + 1,
        };
        let bare = line.trim_start();
        let indent = line.len() - bare.len();
        match (&mut open, bare.strip_prefix("```")) {
            (None, Some(language)) => {
                let block = Block {
                    place,
                    language: language.trim().to_owned(),
                    lines: vec![],
                };
                open = Some((indent, block));
            }
            (Some(_), Some(_)) => page.blocks.extend(open.take().map(|(_, block)| block)),
            (Some((fence, block)), None) => block.lines.push(line[indent.min(*fence)..].to_owned()),
            (None, None) => {
                if indent >= 4 {
                    page.indented.push((place.clone(), bare.to_owned()));
                }
                let spans = line.split('`').skip(1).step_by(2);
                page.spans
                    .extend(spans.map(|span| (place.clone(), span.to_owned())));
            }
        }
    }
    ensure!(open.is_none(), "{}: a fence is not closed", path.display());
    Ok(page)
}
