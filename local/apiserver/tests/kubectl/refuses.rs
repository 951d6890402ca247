//! What is not allowed, and in which words.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::session::{DEPLOYMENT, POD, Session};

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_named_by_field() {
    let Some(session) = Session::start().await else { return };
    let apply = ["apply", "-f", "-"];
    let unknown = session.run_with(&apply, &DEPLOYMENT.replace("replicas", "replicsa")).await;
    assert!(unknown.err.contains("unknown field \"spec.replicsa\""), "{unknown:?}");
    let unmatched =
        session.run_with(&apply, &DEPLOYMENT.replace("matchLabels: {app: web}", "matchLabels: {app: x}")).await;
    assert!(unmatched.err.contains("`selector` does not match template `labels`"), "{unmatched:?}");
    let typed = session.run_with(&apply, &DEPLOYMENT.replace("replicas: 2", "replicas: many")).await;
    assert!(typed.err.contains("replicas"), "{typed:?}");
    let bare = session.run_with(&apply, "{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {}}").await;
    assert!(bare.err.contains("is invalid: spec.containers: Required value\n"), "{bare:?}");
    let unnamed = session.run_with(&apply, &POD.replace("name: c, ", "")).await;
    assert!(unnamed.err.contains("is invalid: spec.containers[0].name: Required value\n"), "{unnamed:?}");
    session.ok_with("apply -f -", DEPLOYMENT).await;
    let moved = DEPLOYMENT.replace("{app: web}", "{app: api}");
    let immutable = session.run_with(&apply, &moved).await;
    assert!(immutable.err.contains("field is immutable"), "{immutable:?}");
    session.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn protobuf_bodies_are_refused_with_a_way_out() {
    let Some(session) = Session::start().await else { return };
    let created = session.run("create configmap c --from-literal=a=b").await;
    assert!(!created.success && created.err.contains("kubectl apply"), "{created:?}");
    session.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stated_limits_have_a_clear_answer() {
    let Some(session) = Session::start().await else { return };
    session.ok_with("apply -f -", POD).await;
    let running = serde_json::json!({"phase": "Running"});
    session.set_status("", "Pod", "p", &running).await;
    for (line, text) in [
        ("exec p -- ls", "exec and attach are not supported"),
        ("port-forward p 8080:80", "connect to status.podIP"),
        ("create token default", "the only token"),
        ("auth can-i create pods", "no authorisation here"),
        ("top pods", "Metrics API not available"),
    ] {
        let printed = session.run(line).await;
        assert!(!printed.success && printed.err.contains(text), "kubectl {line}: {printed:?}");
    }
    session.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_and_plain_http_are_turned_away() {
    let Some(session) = Session::start().await else { return };
    let stranger = session.run("--token=wrong get pods").await;
    assert!(!stranger.success && stranger.err.contains("must be logged in"), "{stranger:?}");
    let mut plain = tokio::net::TcpStream::connect(session.address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    plain.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("HTTPS"), "{answer}");
    session.end().await;
}
