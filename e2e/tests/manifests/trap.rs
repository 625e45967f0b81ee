//! What can go wrong with a manifest without anybody noticing, and the proof that each check would notice.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use e2e::tools::repository_root;

use crate::files::Files;
use crate::{images, module, modulectl, names, network, order, roles, running, security, text};

/// Something in Kyma's tools, or in Kubernetes, that punishes an innocent-looking manifest.
pub struct Trap {
    /// In docs/contributor/packaging.md it is called so.
    pub name: &'static str,
    /// Whether the files are free of it.
    pub avoided: fn(&Files) -> Result<()>,
    /// Changes that lead into it; `avoided` must see each.
    pub ways_in: &'static [fn(&mut Files)],
}

fn traps() -> impl Iterator<Item = &'static Trap> {
    let all = [
        text::TRAPS,
        order::TRAPS,
        names::TRAPS,
        images::TRAPS,
        module::TRAPS,
        modulectl::TRAPS,
        security::TRAPS,
        running::TRAPS,
        network::TRAPS,
        roles::TRAPS,
    ];
    all.into_iter().flatten()
}

#[test]
fn the_files_avoid_every_trap() -> Result<()> {
    let files = Files::of_the_source()?;
    let sprung: Vec<_> = traps()
        .filter_map(|trap| Some(format!("{}: {:#}", trap.name, (trap.avoided)(&files).err()?)))
        .collect();
    ensure!(sprung.is_empty(), "{}", sprung.join("\n"));
    Ok(())
}

#[test]
fn every_way_into_a_trap_is_noticed() -> Result<()> {
    let files = Files::of_the_source()?;
    for trap in traps() {
        ensure!(
            !trap.ways_in.is_empty(),
            "nothing shows that '{}' is noticed",
            trap.name
        );
        for (index, lead) in trap.ways_in.iter().enumerate() {
            let mut changed = files.clone();
            lead(&mut changed);
            ensure!(
                changed != files,
                "way {index} into '{}' changes nothing",
                trap.name
            );
            ensure!(
                (trap.avoided)(&changed).is_err(),
                "way {index} into '{}' is not noticed",
                trap.name
            );
        }
    }
    Ok(())
}

#[test]
fn every_trap_is_written_down() -> Result<()> {
    let text = std::fs::read_to_string(repository_root().join("docs/contributor/packaging.md"))?;
    let rows = text.lines().filter_map(|line| line.strip_prefix("| **"));
    let told: BTreeSet<_> = rows.filter_map(|row| row.split("**").next()).collect();
    let known: BTreeSet<_> = traps().map(|trap| trap.name).collect();
    let missing: Vec<_> = known.difference(&told).collect();
    let stale: Vec<_> = told.difference(&known).collect();
    ensure!(
        missing.is_empty() && stale.is_empty(),
        "missing: {missing:?}, without a check: {stale:?}"
    );
    Ok(())
}

#[test]
fn the_same_source_makes_the_same_files() -> Result<()> {
    ensure!(Files::of_the_source()? == Files::built_again().context("a second build")?);
    Ok(())
}
