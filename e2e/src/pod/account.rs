//! The ServiceAccount's volume, written as the kubelet does: the files are links into a folder that a link names, so that
//! all of them change at one moment and a reader sees old ones or new ones.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::Result;

/// Name of the link; <https://pkg.go.dev/k8s.io/kubernetes/pkg/volume/util#AtomicWriter>.
const CURRENT: &str = "..data";

/// A volume of type `projected`.
#[derive(Debug)]
pub struct Account {
    folder: PathBuf,
    written: u32,
}

impl Account {
    /// An empty one.
    pub fn new(folder: PathBuf) -> Result<Self> {
        fs::create_dir_all(&folder)?;
        Ok(Self { folder, written: 0 })
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Replaces the files by these, given by name and content.
    pub fn write(&mut self, files: &[(&str, &[u8])]) -> Result<()> {
        let name = |number: u32| format!("..{number}");
        let new = self.written + 1;
        let content = self.folder.join(name(new));
        fs::create_dir(&content)?;
        for (file, text) in files {
            fs::write(content.join(file), text)?;
        }
        let link = self.folder.join("..data_tmp");
        symlink(name(new), &link)?;
        fs::rename(link, self.folder.join(CURRENT))?;
        for (file, _) in files {
            let path = self.folder.join(file);
            if !path.is_symlink() {
                symlink(Path::new(CURRENT).join(file), path)?;
            }
        }
        if self.written > 0 {
            fs::remove_dir_all(self.folder.join(name(self.written)))?;
        }
        self.written = new;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_replaced_behind_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let mut account = Account::new(folder.path().join("account")).unwrap();
        for round in ["first", "second", "third"] {
            account
                .write(&[("token", round.as_bytes()), ("namespace", b"here")])
                .unwrap();
            let read = |file: &str| fs::read_to_string(account.folder().join(file)).unwrap();
            assert_eq!([read("token"), read("namespace")], [round, "here"]);
            // Two names, the link, and one folder.
            assert_eq!(fs::read_dir(account.folder()).unwrap().count(), 4);
        }
    }
}
