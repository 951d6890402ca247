//! Many Inferences asleep: what their platform does while nothing happens.

use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use super::platform::{Platform, is_ready};

/// How long to look.
const LOOK: Duration = Duration::from_mins(1);
/// After the last start, until all is quiet.
const SETTLE: Duration = Duration::from_secs(20);

/// Share of a core that the platform with its controller uses, and how many objects it writes.
pub async fn measure(platform: &Platform, inferences: usize) -> anyhow::Result<Value> {
    let mut ready = futures::stream::iter(0..inferences)
        .map(async |index| {
            let name = format!("idle-{index}");
            platform.apply(&super::sleeper(&name)).await?;
            platform.until(&name, is_ready).await
        })
        .buffer_unordered(4);
    let mut count = 0;
    while let Some(one) = ready.next().await {
        one?;
        count += 1;
        eprintln!("{count} of {inferences} asleep");
    }
    tokio::time::sleep(SETTLE).await;
    let (written, cpu, start) = (revision(platform).await?, platform.cpu()?, Instant::now());
    tokio::time::sleep(LOOK).await;
    let (cpu, time) = (platform.cpu()?.saturating_sub(cpu), start.elapsed());
    Ok(json!({
        "inferences": inferences,
        "percentOfACore": 100.0 * cpu.as_secs_f64() / time.as_secs_f64(),
        "seconds": time.as_secs_f64(),
        "writes": revision(platform).await? - written,
    }))
}

/// The store's revision grows with every write of any object.
async fn revision(platform: &Platform) -> anyhow::Result<i64> {
    let maps: Api<ConfigMap> = Api::all(platform.client.clone());
    let list = maps.list(&ListParams::default()).await?;
    Ok(list.metadata.resource_version.unwrap_or_default().parse()?)
}
