//! Commands that wait for others' work.

use serde_json::json;

use super::session::{DEFINITION, DEPLOYMENT, Session, WIDGET, next};

#[tokio::test(flavor = "multi_thread")]
async fn waits_for_conditions_values_and_ends() {
    let Some(session) = Session::start().await else { return };
    session.ok_with("apply -f -", DEFINITION).await;
    session.ok("wait --for=condition=Established crd/widgets.example.com --timeout=20s").await;
    session.ok_with("apply -f -", WIDGET).await;
    assert!(!session.run("wait --for=condition=Ready wd/a --timeout=1s").await.success);

    let ready = session.run("wait --for=condition=Ready wd/a --timeout=30s");
    let status = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    let (ready, ()) = tokio::join!(ready, session.set_status("example.com", "Widget", "a", &status));
    assert_eq!(ready.out, "widget.example.com/a condition met\n", "{ready:?}");

    let size = session.run("wait --for=jsonpath={.spec.size}=9 wd/a --timeout=30s");
    let (size, _) = tokio::join!(size, session.ok("scale wd a --replicas=9"));
    assert_eq!(size.out, "widget.example.com/a condition met\n", "{size:?}");

    let gone = session.run("wait --for=delete wd/a --timeout=30s");
    let (gone, _) = tokio::join!(gone, session.ok("delete wd a"));
    assert!(gone.success, "{gone:?}");
    session.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_is_followed_to_its_end() {
    let Some(session) = Session::start().await else { return };
    session.ok_with("apply -f -", DEPLOYMENT).await;
    let (mut child, mut lines) = session.follow("rollout status deploy/web --timeout=60s");
    assert!(next(&mut lines).await.starts_with("Waiting for deployment"));
    let done = json!({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2,
        "availableReplicas": 2});
    session.set_status("apps", "Deployment", "web", &done).await;
    let mut line = next(&mut lines).await;
    while line.starts_with("Waiting") {
        line = next(&mut lines).await;
    }
    assert_eq!(line, "deployment \"web\" successfully rolled out");
    assert!(child.wait().await.unwrap().success());
    session.ok("rollout restart deploy/web").await;
    session.end().await;
}
