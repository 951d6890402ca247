//! Looking at objects: tables, YAML, watches, logs, descriptions.

use serde_json::json;

use super::session::{DEFINITION, DEPLOYMENT, POD, Session, WIDGET, cells, next};

#[tokio::test(flavor = "multi_thread")]
async fn tables_look_as_kubectl_users_know_them() {
    let Some(session) = Session::start().await else { return };
    session.ok_with("apply --server-side -f -", DEPLOYMENT).await;
    session.ok_with("apply --server-side -f -", POD).await;
    let running = json!({"phase": "Running", "podIP": "127.9.0.2", "containerStatuses": [
        {"name": "c", "ready": true, "restartCount": 0, "image": "x", "imageID": "", "state": {"running": {}}}]});
    session.set_status("", "Pod", "p", &running).await;

    let pods = session.ok("get pods").await;
    assert_eq!(cells(&pods)[0], ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]);
    assert_eq!(cells(&pods)[1][..4], ["p", "1/1", "Running", "0"]);
    let wide = session.ok("get pods -o wide").await;
    assert!(cells(&wide)[1].contains(&"127.9.0.2") && cells(&wide)[1].contains(&"local"), "{wide}");
    let deployments = session.ok("get deploy").await;
    assert_eq!(cells(&deployments)[0], ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]);
    assert_eq!(cells(&deployments)[1][..4], ["web", "0/2", "0", "0"]);
    assert!(session.ok("get deploy web -o wide").await.contains("app=web"));
    assert!(cells(&session.ok("get ns").await).iter().any(|row| row[..2] == ["default", "Active"]));
    let all = session.ok("get all").await;
    assert!(all.contains("pod/p") && all.contains("deployment.apps/web"), "{all}");
    assert!(session.ok("get deploy,rs,pods").await.contains("deployment.apps/web"));
    assert!(session.ok("get pods -A").await.starts_with("NAMESPACE"));
    assert!(session.ok("get pods -l app=web -o name").await.contains("pod/p"));
    assert!(session.ok("get pods -o custom-columns=N:.metadata.name").await.contains('p'));
    assert!(session.ok("get pods --sort-by=.metadata.name --show-labels").await.contains("app=web"));
    let yaml = session.ok("get pod p -o yaml").await;
    assert!(yaml.contains("restartPolicy: Always") && yaml.contains("uid: "), "{yaml}");
    session.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_columns_come_from_the_definition() {
    let Some(session) = Session::start().await else { return };
    session.ok_with("apply --server-side -f -", DEFINITION).await;
    session.ok_with("apply --server-side -f -", WIDGET).await;
    let short = session.ok("get wd").await;
    assert_eq!(cells(&short)[0], ["NAME", "SIZE", "AGE"]);
    assert_eq!(cells(&short)[1][..2], ["a", "3"]);
    let wide = session.ok("get widgets -o wide").await;
    assert_eq!(cells(&wide)[1][..3], ["a", "3", "none"]);
    assert!(session.ok("get things").await.contains('a'));
    assert!(session.ok("get crd").await.contains("widgets.example.com"));
    assert_eq!(session.ok("get wd a -o jsonpath={.spec.note}").await, "none");
    session.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_shows_changes_as_rows() {
    let Some(session) = Session::start().await else { return };
    session.ok_with("apply --server-side -f -", POD).await;
    let (mut child, mut lines) = session.follow("get pods -w");
    assert!(next(&mut lines).await.starts_with("NAME"));
    assert!(next(&mut lines).await.contains("Pending"));
    session.set_status("", "Pod", "p", &json!({"phase": "Succeeded"})).await;
    assert!(next(&mut lines).await.contains("Succeeded"));
    child.kill().await.unwrap();
    session.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_come_from_the_node() {
    let Some(session) = Session::start().await else { return };
    session.ok_with("apply --server-side -f -", POD).await;
    assert_eq!(session.ok("logs p").await, "c line 0\nc line 1\nc line 2\n");
    assert_eq!(session.ok("logs p -c c --tail=1").await, "c line 0\n");
    let wrong = session.run("logs p -c nothing").await;
    assert!(wrong.err.contains("container nothing is not valid for pod p"), "{wrong:?}");
    let before = session.run("logs p --previous").await;
    assert!(before.err.contains("previous terminated container \"c\" in pod \"p\" not found"), "{before:?}");
    assert!(session.run("logs none").await.err.contains("pods \"none\" not found"));

    let (mut child, mut lines) = session.follow("logs p -f");
    assert_eq!(next(&mut lines).await, "c line 0");
    child.kill().await.unwrap();

    session.ok_with("apply --server-side -f -", DEPLOYMENT).await;
    assert!(session.ok("logs deploy/web").await.contains("c line 0"));
    session.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_described_with_their_events() {
    let Some(session) = Session::start().await else { return };
    session.ok_with("apply --server-side -f -", POD).await;
    session.ok_with("apply --server-side -f -", DEPLOYMENT).await;
    let uid = session.ok("get pod p -o jsonpath={.metadata.uid}").await;
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "p.1", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default", "uid": uid},
        "type": "Warning", "reason": "Odd", "message": "something odd", "source": {"component": "test"},
        "firstTimestamp": "2030-01-01T00:00:00Z", "lastTimestamp": "2030-01-01T00:00:00Z", "count": 1});
    session.ok_with("apply --server-side -f -", &event.to_string()).await;
    let described = session.ok("describe pod p").await;
    assert!(described.contains("something odd") && described.contains("Image:"), "{described}");
    assert!(session.ok("describe deploy web").await.contains("RollingUpdateStrategy:"));
    let events = session.ok("get events").await;
    assert_eq!(cells(&events)[0], ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]);
    assert!(events.contains("pod/p"));
    assert!(session.ok("events").await.contains("something odd"));
    session.ok_with("apply --server-side -f -", DEFINITION).await;
    session.ok_with("apply --server-side -f -", WIDGET).await;
    assert!(session.ok("describe wd a").await.contains("Size:"));
    session.end().await;
}
