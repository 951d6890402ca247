//! Nodes are emptied one after the other under load.

use super::installed::installed;
use super::scene::{endpoint, inference, job, load, no_request_failed, play};

#[tokio::test]
async fn a_node_drain_loses_no_request() {
    let Some(installed) = installed().await else { return };
    let _alone = installed.alone().await;
    play(installed, "drain", async |installed, flow| {
        flow.apply(&job("train", "centroid")).await?;
        flow.apply(&inference(&["{name: only, replicas: 2, model: {name: digits, job: train}}"])).await?;
        let endpoint = endpoint(flow).await?;
        let users = load(&endpoint);
        for node in installed.cluster.nodes()? {
            let flags = ["--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=150s"];
            let drained = installed.cluster.kubectl_ok(&[&["drain", node], &flags[..]].concat()).await;
            installed.cluster.kubectl_ok(&["uncordon", node]).await?;
            drained?;
        }
        let report = no_request_failed(users).await?;
        println!("{} requests over two drains, none failed", report.answers);
        Ok(())
    })
    .await;
}
