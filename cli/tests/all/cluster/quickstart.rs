//! The quickstart on a cluster prints the same document.

use std::process::Command;

use serde_json::Value;

use super::installed::installed;
use super::scene::play;
use crate::harness::MODELWAY;

#[tokio::test]
async fn quickstart_tells_the_story_on_a_cluster() {
    let Some(installed) = installed().await else { return };
    let _others = installed.together().await;
    play(installed, "quickstart", async |installed, _| {
        let mut command = Command::new(MODELWAY);
        command.arg("quickstart").arg("--kubeconfig").arg(installed.cluster.kubeconfig());
        command.args(["--namespace", "quickstart", "--users", "400", "--output", "json"]);
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        anyhow::ensure!(output.status.success(), "quickstart failed: {said}");
        let document: Value = serde_json::from_slice(&output.stdout)?;
        anyhow::ensure!(document["traffic"]["errors"] == 0, "{document:#}");
        anyhow::ensure!(document["traffic"]["stickyViolations"] == 0, "{document:#}");
        anyhow::ensure!(document["versions"].as_array().is_some_and(|versions| versions.len() == 2), "{document:#}");
        anyhow::ensure!(document["path"] == "direct", "{document:#}");
        let tuning = &document["tuning"];
        let count = |field: &str| tuning[field].as_u64().unwrap_or(0);
        anyhow::ensure!(count("candidates") >= 64 && (4..=12).contains(&count("trials")), "{tuning:#}");
        anyhow::ensure!(tuning["recommended"].is_object() && tuning["gain"]["low"].is_number(), "{tuning:#}");
        anyhow::ensure!(tuning["report"] == "configmap/digits-quickstart-report", "{tuning:#}");
        println!("{}", document["seconds"]);
        Ok(())
    })
    .await;
}
