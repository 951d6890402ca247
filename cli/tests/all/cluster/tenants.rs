//! Two tenants of one cluster cannot see, publish or route each other's models.

use anyhow::ensure;
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams};
use modelway_api::{Inference, ModelVersion, RouteTable};
use modelway_tests::flows::condition;
use serde_json::json;

use super::installed::installed;
use super::scene::{endpoint, inference, job, play, published};

#[tokio::test]
async fn tenants_cannot_see_publish_or_route_each_others_models() {
    let Some(installed) = installed().await else { return };
    let _others = installed.together().await;
    play(installed, "tenant-b", async |installed, other| {
        play(installed, "tenant-a", async |installed, own| {
            let cluster = installed.cluster;
            for tenant in ["tenant-a", "tenant-b"] {
                cluster.kubectl_ok(&["create", "serviceaccount", "user", "-n", tenant]).await?;
                let account = format!("--serviceaccount={tenant}:user");
                let bind = ["create", "rolebinding", "user", "--clusterrole=edit", &account, "-n", tenant];
                cluster.kubectl_ok(&bind).await?;
            }
            other.apply(&job("train", "centroid")).await?;
            let theirs = published(other, "train").await?;
            let version = theirs.metadata.name.clone().unwrap_or_default();
            other.apply(&inference(&["{name: a, model: {name: digits, job: train}}"])).await?;
            endpoint(other).await?;

            // People.
            let user = cluster.client_of("tenant-a", "user").await?;
            for (what, code) in [
                (
                    "sees",
                    code(Api::<ModelVersion>::namespaced(user.clone(), "tenant-b").list(&ListParams::default()).await),
                ),
                ("reads", code(Api::<Inference>::namespaced(user.clone(), "tenant-b").get("digits").await)),
                ("publishes", code(publish(&user, "tenant-b").await)),
                ("routes", code(reweight(&user, "tenant-b").await)),
            ] {
                ensure!(code == 403, "a tenant {what} another's: {code}");
            }
            ensure!(
                code(Api::<Inference>::namespaced(user.clone(), "tenant-a").list(&ListParams::default()).await) == 200
            );

            // The router's own account.
            let router = cluster.client_of("tenant-b", "digits-router").await?;
            let list = ListParams::default();
            ensure!(code(Api::<RouteTable>::namespaced(router.clone(), "tenant-b").list(&list).await) == 200);
            ensure!(code(Api::<RouteTable>::namespaced(router.clone(), "tenant-a").list(&list).await) == 403);

            // Objects: no name reaches over.
            own.apply(&inference(&[&format!("{{name: a, modelVersion: {version}}}")])).await?;
            let missing = |inference: &Inference| {
                condition(inference, "ModelReady").is_some_and(|(_, reason, _)| reason == "ModelVersionNotFound")
            };
            own.until("digits", missing).await?;
            own.apply(&host_folder()).await?;
            let refused = |version: &ModelVersion| {
                let conditions = version.status.iter().flat_map(|status| &status.conditions);
                conditions.into_iter().any(|condition| condition.reason == "HostPathNotAllowed")
            };
            own.until("stolen", refused).await?;
            Ok(())
        })
        .await;
        Ok(())
    })
    .await;
}

fn host_folder() -> String {
    "apiVersion: model.kubedl.io/v1alpha1\nkind: ModelVersion\nmetadata: {name: stolen}\nspec:\n  modelName: stolen\n  storage: {localStorage: {path: /etc}}\n"
        .to_owned()
}

fn code<T>(answer: kube::Result<T>) -> u16 {
    match answer {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(_) => 0,
    }
}

async fn publish(user: &Client, namespace: &str) -> kube::Result<ModelVersion> {
    let version = json!({"apiVersion": "model.kubedl.io/v1alpha1", "kind": "ModelVersion", "metadata": {"name": "mine"},
        "spec": {"modelName": "digits", "storage": {"pvc": {"claimName": "train"}}}});
    let api: Api<ModelVersion> = Api::namespaced(user.clone(), namespace);
    api.patch("mine", &PatchParams::apply("user"), &Patch::Apply(version)).await
}

async fn reweight(user: &Client, namespace: &str) -> kube::Result<Inference> {
    let api: Api<Inference> = Api::namespaced(user.clone(), namespace);
    api.patch("digits", &PatchParams::default(), &Patch::Merge(json!({"spec": {"paused": true}}))).await
}
