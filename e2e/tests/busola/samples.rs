//! GpuModules as real runs of the operator left them, one for each thing that the dashboard has to tell.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use gpu_manager::api::{GpuModule, State};
use serde_json::Value;

use crate::schema::{faults, schema};

/// Every sample by its name.
pub fn samples() -> Result<Vec<(String, Value)>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/busola/samples");
    let mut samples = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path
            .file_stem()
            .context("no name")?
            .to_string_lossy()
            .into_owned();
        let sample = serde_saphyr::from_str(&fs::read_to_string(&path)?);
        samples.push((name.clone(), sample.context(name)?));
    }
    samples.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(samples)
}

#[test]
fn every_sample_is_a_gpu_module_of_today() -> Result<()> {
    let schema = schema()?;
    for (name, sample) in samples()? {
        let module: GpuModule = serde_json::from_value(sample.clone()).context(name.clone())?;
        let again = serde_json::to_value(&module)?;
        for part in ["spec", "status"] {
            let (before, after) = (sample.get(part), again.get(part).filter(|part| !part.is_null()));
            ensure!(before == after, "{name}: a field of {part} is not known any more");
            let wrong = before.map(|value| faults(&schema["properties"][part], value, part));
            let wrong = wrong.unwrap_or_default();
            ensure!(wrong.is_empty(), "{name}: {wrong:#?}");
        }
    }
    Ok(())
}

#[test]
fn there_is_a_sample_of_every_state() -> Result<()> {
    let samples = samples()?;
    let state = |sample: &Value| Some(sample.pointer("/status/state")?.as_str()?.to_owned());
    let found: BTreeSet<_> = samples.iter().map(|(_, sample)| state(sample)).collect();
    let all = State::ALL.iter().map(|state| Some(state.as_str().to_owned()));
    // None: nothing has been reported yet.
    let all: BTreeSet<_> = all.chain([None]).collect();
    ensure!(found == all, "{found:?}");
    Ok(())
}
