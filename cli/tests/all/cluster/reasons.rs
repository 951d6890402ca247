//! What goes wrong on nodes and in admission shows on the Inference, with its reason, within seconds.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use modelway_api::Inference;
use modelway_tests::flows::{Flow, condition};

use super::installed::installed;
use super::scene::play;

/// Seconds on an idle machine; a bound that a busy one keeps too.
const SOON: Duration = Duration::from_mins(1);

fn server(name: &str, container: &str, pod: &str) -> String {
    format!(
        r"
apiVersion: serving.kubedl.io/v1alpha1
kind: Inference
metadata: {{name: {name}}}
spec:
  framework: Custom
  predictors:
    - name: p
      template:
        spec:
          terminationGracePeriodSeconds: 1
          {pod}
          containers: [{{name: server, image: busybox, {container}}}]
"
    )
}

/// Waits until the Inference is not ready for that reason; returns its message.
async fn told(flow: &Flow, name: &str, reason: &str) -> anyhow::Result<String> {
    let says = |inference: &Inference| condition(inference, "Ready").is_some_and(|(_, word, _)| word == reason);
    let inference = flow.until(name, says).await.with_context(|| format!("{name} should say {reason}"))?;
    Ok(condition(&inference, "Ready").map(|(.., message)| message.to_owned()).unwrap_or_default())
}

#[tokio::test]
async fn what_nodes_say_shows_with_its_reason() {
    let Some(installed) = installed().await else { return };
    let _others = installed.together().await;
    play(installed, "reasons", async |installed, flow| {
        let cases = [
            ("oom", "command: [sh, -c, 'tail /dev/zero'], resources: {limits: {memory: 16Mi}}", "", "OOMKilled"),
            ("crash", "command: [sh, -c, 'echo bad weights >&2; exit 3']", "", "CrashLoopBackOff"),
            ("pull", "imagePullPolicy: Always", "", "ImagePullBackOff"),
            ("nowhere", "command: [sleep, '1000']", "nodeSelector: {gpu: none-here}", "Unschedulable"),
            (
                "config",
                "command: [sleep, '1000'], env: [{name: A, valueFrom: {secretKeyRef: {name: none, key: k}}}]",
                "",
                "CreateContainerConfigError",
            ),
            (
                "evicted",
                // Not ready for a while, so that its successor does not stand in for it at once.
                "command: [sh, -c, 'dd if=/dev/zero of=/x/f bs=1M count=64; sleep 1000'], volumeMounts: [{name: x, mountPath: /x}], readinessProbe: {exec: {command: ['true']}, initialDelaySeconds: 20}",
                "volumes: [{name: x, emptyDir: {sizeLimit: 1Mi}}]",
                "Evicted",
            ),
        ];
        for (name, container, pod, _) in &cases {
            let manifest = server(name, container, pod);
            let manifest = if *name == "pull" { manifest.replace("busybox", "127.0.0.1:1/none:1") } else { manifest };
            flow.apply(&manifest).await?;
        }
        for (name, .., reason) in &cases {
            let message = told(flow, name, reason).await?;
            println!("{reason}: {message}");
        }
        explained(installed).await
    })
    .await;
}

/// The chain ends at the pod that no node takes.
async fn explained(installed: &super::installed::Installed) -> anyhow::Result<()> {
    let mut command = std::process::Command::new(crate::harness::MODELWAY);
    command
        .args(["explain", "inference", "nowhere", "-n", "reasons", "--kubeconfig"])
        .arg(installed.cluster.kubeconfig());
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let cause = text.lines().find(|line| line.starts_with("Cause: ")).with_context(|| text.clone())?;
    ensure!(cause.contains("Pod nowhere-p-") && cause.contains("Unschedulable"), "{text}");
    Ok(())
}

#[tokio::test]
async fn refusals_of_admission_show_with_their_reason_in_seconds() {
    let Some(installed) = installed().await else { return };
    let _others = installed.together().await;
    play(installed, "refusals", async |installed, flow| {
        let quota = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: none}\nspec: {hard: {pods: '0'}}\n";
        let limits = "apiVersion: v1\nkind: LimitRange\nmetadata: {name: small}\nspec: {limits: [{type: Container, max: {memory: 32Mi}}]}\n";
        let big = "command: [sleep, '1000'], resources: {limits: {memory: 1Gi}}";
        let plain = "command: [sleep, '1000']";
        for (manifest, container, reason) in [(quota, plain, "QuotaExceeded"), (limits, big, "LimitRangeViolated")] {
            flow.apply(manifest).await?;
            let start = Instant::now();
            let name = if reason == "QuotaExceeded" { "quota" } else { "limits" };
            flow.apply(&server(name, container, "")).await?;
            let message = told(flow, name, reason).await?;
            ensure!(start.elapsed() < SOON, "{reason} after {:?}", start.elapsed());
            println!("{reason} after {:?}: {message}", start.elapsed());
            let kind = if name == "quota" { "resourcequota/none" } else { "limitrange/small" };
            installed.cluster.kubectl_ok(&["delete", kind, "-n", "refusals"]).await?;
        }
        // The same for a build, whose Job has nothing but events to tell it by.
        flow.apply(quota).await?;
        let version = "apiVersion: model.kubedl.io/v1alpha1\nkind: ModelVersion\nmetadata: {name: build}\nspec: {modelName: m, storage: {pvc: {claimName: none}}}\n";
        flow.apply(version).await?;
        let refused = |version: &modelway_api::ModelVersion| {
            let mut conditions = version.status.iter().flat_map(|status| &status.conditions);
            conditions.any(|condition| condition.reason == "QuotaExceeded")
        };
        flow.until("build", refused).await?;
        installed.cluster.kubectl_ok(&["delete", "resourcequota/none", "-n", "refusals"]).await?;

        let level = "pod-security.kubernetes.io/enforce=restricted";
        installed.cluster.kubectl_ok(&["label", "namespace", "refusals", level]).await?;
        let start = Instant::now();
        flow.apply(&server("secure", plain, "")).await?;
        let message = told(flow, "secure", "PodSecurityViolated").await?;
        ensure!(start.elapsed() < SOON, "after {:?}", start.elapsed());
        println!("PodSecurityViolated after {:?}: {message}", start.elapsed());
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_permission_that_is_missing_is_named_by_verb_and_resource() {
    let Some(installed) = installed().await else { return };
    let _alone = installed.alone().await;
    play(installed, "denied", async |installed, flow| {
        let role = "clusterrole/modelway-system-modelway-controller";
        let saved = installed.cluster.kubectl_ok(&["get", role, "-o", "json"]).await?;
        let mut less: serde_json::Value = serde_json::from_str(&saved)?;
        let rules = less["rules"].as_array_mut().context("no rules")?;
        for rule in rules.iter_mut() {
            let resources = rule["resources"].as_array_mut().context("no resources")?;
            let is_services = resources.iter().any(|resource| resource == "services");
            let writes = rule["verbs"].as_array().is_some_and(|verbs| verbs.iter().any(|verb| verb == "create"));
            if is_services && writes {
                rule["verbs"] = serde_json::json!(["delete"]);
            }
        }
        installed.cluster.kubectl_with(&["replace", "-f", "-"], &less.to_string()).await?;
        let outcome = async {
            flow.apply(&server("denied", "command: [sleep, '1000']", "")).await?;
            let message = told(flow, "denied", "AccessDenied").await?;
            println!("AccessDenied: {message}");
            ensure!(message.contains("services") && message.contains("cannot"), "{message}");
            anyhow::Ok(())
        };
        let outcome = outcome.await;
        let mut again: serde_json::Value = serde_json::from_str(&saved)?;
        again["metadata"].as_object_mut().context("no metadata")?.remove("resourceVersion");
        installed.cluster.kubectl_with(&["replace", "-f", "-"], &again.to_string()).await?;
        outcome?;
        // Given again, it goes on by itself.
        let granted = |inference: &Inference| {
            condition(inference, "Ready").is_some_and(|(_, reason, _)| reason != "AccessDenied")
        };
        flow.until("denied", granted).await?;
        Ok(())
    })
    .await;
}
