//! Each sample of the GpuModule on a running operator.

use anyhow::{Result, ensure};
use gpu_manager::api::{ConditionType, condition};

use super::{MODULE, administer, all};
use crate::lab::Lab;

#[tokio::test(flavor = "multi_thread")]
async fn every_sample_of_the_module_is_taken() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.manager().await?;
    let samples = all()?;
    let samples: Vec<_> = samples.iter().filter(|name| name.starts_with(MODULE)).collect();
    ensure!(!samples.is_empty(), "there is none");
    for sample in samples {
        administer(&lab, sample).await?;
        let what = format!("{sample} to be taken");
        lab.until_status(&what, |status| {
            condition(status, ConditionType::Configured)
                .is_some_and(|found| found.status == "True" && found.reason == "Configured")
        })
        .await?;
    }
    Ok(())
}
