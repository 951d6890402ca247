//! Two controllers, of which one leads; the leader is killed in the middle of each kind of work.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams};
use modelway_api::ModelVersion;
use modelway_tests::flows::Flow;

use super::installed::{Installed, RELEASE, installed};
use super::scene::{endpoint, inference, job, load, no_request_failed, play, published};

/// From the death of a leader to the next one.
const TAKEOVER: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_leader_that_is_killed_at_work_loses_nothing_and_does_nothing_twice() {
    let Some(installed) = installed().await else { return };
    let _alone = installed.alone().await;
    play(installed, "leader", async |installed, flow| {
        flow.apply(&job("first", "centroid")).await?;
        flow.apply(&job("second", "wide")).await?;
        flow.apply(&inference(&["{name: a, model: {name: digits, job: first}}"])).await?;
        // While jobs train and images are built.
        let publishing = kill(installed).await?;
        for job in ["first", "second"] {
            published(flow, job).await?;
        }
        // While predictors start.
        let serving = kill(installed).await?;
        let endpoint = endpoint(flow).await?;
        once(flow).await?;
        // While a predictor rolls to another model, under load.
        let users = load(&endpoint);
        flow.apply(&inference(&["{name: a, model: {name: digits, job: second}}"])).await?;
        let rolling = kill(installed).await?;
        flow.ready("digits").await?;
        no_request_failed(users).await?;
        once(flow).await?;
        println!("takeovers after kill -9: {publishing:?} {serving:?} {rolling:?}");
        let worst = publishing.max(serving).max(rolling);
        ensure!(worst < TAKEOVER, "a takeover took {worst:?}");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_leader_that_is_told_to_go_hands_over_at_once() {
    let Some(installed) = installed().await else { return };
    let _alone = installed.alone().await;
    play(installed, "handover", async |installed, _| {
        let before = holder(installed).await?;
        let pod = before.split('_').next().unwrap_or_default().to_owned();
        let start = Instant::now();
        installed.cluster.kubectl_ok(&["delete", "pod", &pod, "-n", RELEASE, "--wait=false"]).await?;
        let time = next(installed, &before, start).await?;
        // A crash takes the lease's 15 s.
        ensure!(time < Duration::from_secs(10), "the lease was handed over after {time:?}");
        println!("handed over after {time:?}");
        Ok(())
    })
    .await;
}

/// One version of each job, and one finished build of each version.
async fn once(flow: &Flow) -> anyhow::Result<()> {
    let versions = flow.api::<ModelVersion>().list(&ListParams::default()).await?.items;
    ensure!(versions.len() == 2, "{} versions of two jobs", versions.len());
    let jobs = flow.api::<Job>().list(&ListParams::default()).await?.items;
    for version in &versions {
        let uid = version.metadata.uid.as_deref();
        let owned = jobs.iter().filter(|job| {
            let mut owners = job.metadata.owner_references.iter().flatten();
            owners.any(|owner| Some(owner.uid.as_str()) == uid)
        });
        let count = owned.count();
        ensure!(count == 1, "{count} builds of {:?}", version.metadata.name);
    }
    Ok(())
}

/// Kills the leader's process with signal 9; returns how long it takes until another process leads.
async fn kill(installed: &Installed) -> anyhow::Result<Duration> {
    let before = holder(installed).await?;
    let pod = before.split('_').next().unwrap_or_default();
    let process = process_of(pod).with_context(|| format!("no process of the leader {before}"))?;
    let killed = std::process::Command::new("kill").args(["-9", &process.to_string()]).status()?;
    ensure!(killed.success(), "kill -9 {process} failed");
    next(installed, &before, Instant::now()).await
}

/// Waits for another leader.
async fn next(installed: &Installed, before: &str, start: Instant) -> anyhow::Result<Duration> {
    loop {
        let now = holder(installed).await.unwrap_or_default();
        if !now.is_empty() && now != before {
            return Ok(start.elapsed());
        }
        ensure!(start.elapsed() < Duration::from_mins(1), "nobody leads after {before}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn holder(installed: &Installed) -> anyhow::Result<String> {
    let leases: Api<Lease> = Api::namespaced(installed.client().await, RELEASE);
    let lease = leases.get("modelway-controller").await?;
    Ok(lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default())
}

/// The controller's process in that pod, as this machine numbers it.
fn process_of(pod: &str) -> Option<u32> {
    let host = format!("HOSTNAME={pod}");
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let Ok(process) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        let is_controller = line.starts_with(b"modelway\0controller\0");
        if is_controller && environment.split(|byte| *byte == 0).any(|variable| variable == host.as_bytes()) {
            return Some(process);
        }
    }
    None
}
