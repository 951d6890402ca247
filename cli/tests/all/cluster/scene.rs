//! A namespace with a published model and an Inference of it, for tests that disturb them.

use anyhow::Context;
use kube::api::{Api, DeleteParams};
use modelway_api::{ModelVersion, names};
use modelway_tests::flows::{Flow, Load, Report};

use super::installed::{Installed, RELEASE};

/// Users that ask all the time.
const USERS: u32 = 50;

/// One training job with everything that Pod Security "restricted" asks for.
pub fn job(name: &str, variant: &str) -> String {
    format!(
        r"
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}}}
spec:
  accessModes: [ReadWriteOnce]
  resources: {{requests: {{storage: 1Gi}}}}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  annotations: {{modelway.io/model: digits}}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      securityContext: {{runAsNonRoot: true, fsGroup: 65532, seccompProfile: {{type: RuntimeDefault}}}}
      containers:
        - name: train
          image: modelway:0.1.0
          command: [modelway, example, digits, --variant, {variant}]
          securityContext: {{allowPrivilegeEscalation: false, capabilities: {{drop: [ALL]}}}}
          env: [{{name: OUTPUT_DIR, value: /output}}]
          volumeMounts: [{{name: output, mountPath: /output}}]
      volumes:
        - name: output
          persistentVolumeClaim: {{claimName: {name}}}
"
    )
}

/// An Inference called `digits` with these predictors, one line each.
pub fn inference(predictors: &[&str]) -> String {
    let predictors = predictors.join("\n    - ");
    format!(
        "apiVersion: serving.kubedl.io/v1alpha1\nkind: Inference\nmetadata: {{name: digits}}\nspec:\n  framework: ONNX\n  predictors:\n    - {predictors}\n  traffic: {{sticky: [{{header: x-user-id}}]}}\n"
    )
}

/// The URL of the Inference, once it is ready for its newest spec and can be reached.
pub async fn endpoint(flow: &Flow) -> anyhow::Result<String> {
    flow.endpoint("digits").await
}

/// The version that a job made, once it has an image.
pub async fn published(flow: &Flow, job: &str) -> anyhow::Result<ModelVersion> {
    use k8s_openapi::api::batch::v1::Job;
    let uid = flow.until(job, |job: &Job| job.metadata.uid.is_some()).await?.metadata.uid.context("no UID")?;
    let done = |version: &ModelVersion| version.status.as_ref().is_some_and(|status| status.image.is_some());
    flow.until(&names::model_version(job, &uid), done).await
}

/// Users of the Inference.
pub fn load(endpoint: &str) -> Load {
    Load::start(endpoint, "digits", USERS, 2).unwrap()
}

/// Stops the users; fails when anyone got no answer.
pub async fn no_request_failed(load: Load) -> anyhow::Result<Report> {
    let report = load.stop().await?;
    anyhow::ensure!(report.answers > 0, "nobody asked");
    let first: Vec<&String> = report.failures.iter().take(5).collect();
    anyhow::ensure!(
        report.failures.is_empty(),
        "{} of {} requests failed: {first:?}",
        report.failures.len(),
        report.answers + report.failures.len()
    );
    Ok(report)
}

/// Runs a test in a namespace of its own; the objects and the controller's log are in the failure.
pub async fn play<F: AsyncFnOnce(&Installed, &Flow) -> anyhow::Result<()>>(
    installed: &Installed,
    namespace: &str,
    test: F,
) {
    let outcome = async {
        let flow = installed.flow(namespace).await?;
        test(installed, &flow).await
    };
    if let Err(error) = outcome.await {
        let kinds = "inferences,modelversions,jobs,pods,events";
        let cluster = installed.cluster;
        let objects = cluster.kubectl_ok(&["get", kinds, "-n", namespace, "-o", "wide"]).await.unwrap_or_default();
        let pods = cluster.kubectl_ok(&["get", "pods,leases", "-n", RELEASE]).await.unwrap_or_default();
        let selector = "app.kubernetes.io/component=controller";
        let log = cluster.kubectl_ok(&["logs", "-n", RELEASE, "-l", selector, "--tail=60"]).await.unwrap_or_default();
        panic!("{error:#}\n{objects}\n{pods}\ncontroller:\n{log}");
    }
    // Frees the volumes and the memory.
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(installed.client().await);
    let _best_effort = namespaces.delete(namespace, &DeleteParams::default()).await;
}
