//! Finding out what the server has.

use super::session::{DEFINITION, Session, WIDGET, cells};

#[tokio::test(flavor = "multi_thread")]
async fn versions_and_resources_are_listed() {
    let Some(session) = Session::start().await else { return };
    assert!(session.ok("version").await.contains("Server Version: v1.37.2+modelway"));
    assert_eq!(session.ok("get --raw /healthz").await, "ok");
    assert!(session.ok("cluster-info").await.contains("https://127.0.0.1"));

    session.ok_with("apply --server-side -f -", DEFINITION).await;
    let resources = session.ok("api-resources").await;
    let found = cells(&resources);
    for expected in [
        vec!["pods", "po", "v1", "true", "Pod"],
        vec!["deployments", "deploy", "apps/v1", "true", "Deployment"],
        vec!["widgets", "wd", "example.com/v1", "true", "Widget"],
        vec!["namespaces", "ns", "v1", "false", "Namespace"],
    ] {
        assert!(found.contains(&expected), "{expected:?} in {resources}");
    }
    let versions = session.ok("api-versions").await;
    assert!(versions.lines().any(|line| line == "batch/v1") && versions.lines().any(|line| line == "example.com/v1"));
    session.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_are_explained() {
    let Some(session) = Session::start().await else { return };
    let pod = session.ok("explain pods.spec.containers.env").await;
    assert!(pod.contains("FIELD: env") && pod.contains("valueFrom"), "{pod}");
    assert!(session.ok("explain deployment --recursive").await.contains("rollingUpdate"));
    session.ok_with("apply --server-side -f -", DEFINITION).await;
    // kubectl reads discovery anew when an apply names a kind that it does not know.
    session.ok_with("apply --server-side -f -", WIDGET).await;
    let widget = session.ok("explain wd.spec").await;
    assert!(widget.contains("What the widget should be.") && widget.contains("How big it is."), "{widget}");
    session.end().await;
}
