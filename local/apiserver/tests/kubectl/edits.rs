//! Small changes: label, annotate, patch, scale, delete.

use super::session::{DEFINITION, DEPLOYMENT, POD, Session, WIDGET};

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_labelled_annotated_and_patched() {
    let Some(session) = Session::start().await else { return };
    session.ok_with("apply -f -", DEPLOYMENT).await;
    assert_eq!(session.ok("label deploy web x=y").await, "deployment.apps/web labeled\n");
    assert_eq!(session.ok("annotate deploy web n=text").await, "deployment.apps/web annotated\n");
    assert_eq!(session.ok("get deploy web -o jsonpath={.metadata.labels.x}").await, "y");
    session.ok("label deploy web x-").await;
    assert_eq!(session.ok("get deploy web -o jsonpath={.metadata.labels.x}").await, "");
    session.ok(r#"patch deploy web --type=merge -p {"spec":{"minReadySeconds":4}}"#).await;
    session.ok(r#"patch deploy web --type=json -p [{"op":"add","path":"/spec/paused","value":true}]"#).await;
    let strategic = r#"{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"example:2"}]}}}}"#;
    session.ok(&format!("patch deploy web -p {strategic}")).await;
    let shown = "get deploy web -o jsonpath={.spec.minReadySeconds}:{.spec.template.spec.containers[0].image}:\
                 {.spec.template.spec.containers[0].env[0].name}";
    assert_eq!(session.ok(shown).await, "4:example:2:A");
    session.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn built_in_and_custom_kinds_are_scaled() {
    let Some(session) = Session::start().await else { return };
    session.ok_with("apply -f -", DEPLOYMENT).await;
    session.ok("scale deploy web --replicas=5").await;
    assert_eq!(session.ok("get deploy web -o jsonpath={.spec.replicas}").await, "5");
    session.ok_with("apply -f -", DEFINITION).await;
    session.ok_with("apply -f -", WIDGET).await;
    session.ok("scale wd a --replicas=7").await;
    assert_eq!(session.ok("get wd a -o jsonpath={.spec.size}").await, "7");
    session.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_objects_are_gone_when_the_command_returns() {
    let Some(session) = Session::start().await else { return };
    session.ok_with("apply -f -", DEPLOYMENT).await;
    session.ok_with("delete -f -", DEPLOYMENT).await;
    assert!(session.run("get deploy web").await.err.contains("deployments.apps \"web\" not found"));
    session.ok_with("apply -f -", DEFINITION).await;
    session.ok_with("apply -f -", WIDGET).await;
    session.ok("delete wd a").await;
    session.ok("delete crd widgets.example.com").await;
    assert!(!session.run("get wd").await.success);
    session.ok_with("apply -f -", POD).await;
    session.ok("delete pod p --force --grace-period=0").await;
    session.ok_with("apply -f -", "{apiVersion: v1, kind: Namespace, metadata: {name: x}}").await;
    session.ok("delete ns x --timeout=20s").await;
    assert!(session.run("get ns x").await.err.contains("not found"));
    session.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_objects_are_created_and_replaced_from_files() {
    let Some(session) = Session::start().await else { return };
    session.ok_with("create -f -", DEPLOYMENT).await;
    let again = session.run_with(&["create", "-f", "-"], DEPLOYMENT).await;
    assert!(again.err.contains("deployments.apps \"web\" already exists"), "{again:?}");
    session.ok_with("replace -f -", &DEPLOYMENT.replace("replicas: 2", "replicas: 6")).await;
    assert_eq!(session.ok("get deploy web -o jsonpath={.spec.replicas}").await, "6");
    session.ok("set image deploy/web c=example:9").await;
    assert!(session.ok("get deploy web -o wide").await.contains("example:9"));
    session.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_made_from_the_command_line() {
    let Some(session) = Session::start().await else { return };
    session.ok("run q --image=example:1 --restart=Never").await;
    assert_eq!(session.ok("get pod q -o jsonpath={.spec.containers[0].image}").await, "example:1");
    session.end().await;
}
