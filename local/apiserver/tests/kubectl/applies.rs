//! Apply and diff, on the client and on the server.

use super::session::{DEFINITION, DEPLOYMENT, Session, WIDGET};

#[tokio::test(flavor = "multi_thread")]
async fn client_side_apply_creates_keeps_and_changes() {
    let Some(session) = Session::start().await else { return };
    assert_eq!(session.ok_with("apply -f -", DEPLOYMENT).await, "deployment.apps/web created\n");
    assert_eq!(session.ok_with("apply -f -", DEPLOYMENT).await, "deployment.apps/web unchanged\n");
    let changed = DEPLOYMENT.replace("{name: A, value: one}", "{name: B, value: two}");
    let printed = session.run_with(&["apply", "-f", "-"], &changed).await;
    assert!(printed.success && printed.out == "deployment.apps/web configured\n", "{printed:?}");
    assert!(!printed.err.contains("warning"), "{printed:?}");
    let names = "get deploy web -o jsonpath={.spec.template.spec.containers[0].env[*].name}";
    assert_eq!(session.ok(names).await, "B");
    session.end().await;
}

/// A bit of everything that a training job and its service need.
const EVERYTHING: &str = r"
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  backoffLimit: 2
  template:
    metadata: {labels: {job: train}}
    spec:
      restartPolicy: Never
      containers:
      - name: c
        image: example:1
        command: [train, --output, /output]
        resources: {requests: {cpu: 500m}, limits: {memory: 1Gi, cpu: '2'}}
        volumeMounts: [{name: out, mountPath: /output}]
      volumes: [{name: out, persistentVolumeClaim: {claimName: out}}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: out}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, creationTimestamp: null}
data: {a: '1'}
---
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {key: secret}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
";

#[tokio::test(flavor = "multi_thread")]
async fn every_built_in_kind_can_be_applied_again_and_again() {
    let Some(session) = Session::start().await else { return };
    let first = session.ok_with("apply -f -", EVERYTHING).await;
    assert_eq!(first.lines().filter(|line| line.ends_with(" created")).count(), 6, "{first}");
    let again = session.ok_with("apply -f -", EVERYTHING).await;
    // kubectl finds the other three changed each time, as with Kubernetes: the plain text of a Secret is not kept, a
    // null is not what is stored, and a budget's selector is always replaced.
    for same in ["job.batch/train", "persistentvolumeclaim/out", "service/web"] {
        assert!(again.contains(&format!("{same} unchanged\n")), "{again}");
    }
    session.ok_with("apply --server-side --force-conflicts -f -", EVERYTHING).await;
    session.ok_with("apply --server-side -f -", EVERYTHING).await;
    assert_eq!(session.ok("get secret key -o jsonpath={.data.key}").await, "c2VjcmV0");
    for table in ["jobs", "pvc", "svc", "cm", "secret", "pdb", "jobs,svc -o wide"] {
        assert!(session.ok(&format!("get {table}")).await.lines().count() >= 2, "{table}");
    }
    for name in ["job train", "pvc out", "svc web", "cm settings", "secret key", "pdb web", "ns default"] {
        session.ok(&format!("describe {name}")).await;
    }
    session.ok("delete job,svc,cm,secret,pdb,pvc --all --timeout=30s").await;
    session.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_side_apply_works_on_custom_kinds() {
    let Some(session) = Session::start().await else { return };
    session.ok_with("apply -f -", DEFINITION).await;
    assert_eq!(session.ok_with("apply -f -", WIDGET).await, "widget.example.com/a created\n");
    assert_eq!(session.ok_with("apply -f -", WIDGET).await, "widget.example.com/a unchanged\n");
    let bigger = WIDGET.replace('3', "5");
    assert_eq!(session.ok_with("apply -f -", &bigger).await, "widget.example.com/a configured\n");
    assert_eq!(session.ok("get wd a -o jsonpath={.spec.size}").await, "5");
    session.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn server_side_apply_keeps_owners_apart() {
    let Some(session) = Session::start().await else { return };
    let apply = "apply --server-side -f -";
    assert_eq!(session.ok_with(apply, DEPLOYMENT).await, "deployment.apps/web serverside-applied\n");
    assert_eq!(session.ok_with(apply, DEPLOYMENT).await, "deployment.apps/web serverside-applied\n");
    let three = DEPLOYMENT.replace("replicas: 2", "replicas: 3");
    let other = ["apply", "--server-side", "--field-manager=other", "-f", "-"];
    let refused = session.run_with(&other, &three).await;
    assert!(!refused.success && refused.err.contains(".spec.replicas"), "{refused:?}");
    session.ok_with("apply --server-side --field-manager=other --force-conflicts -f -", &three).await;
    assert_eq!(session.ok("get deploy web -o jsonpath={.spec.replicas}").await, "3");
    session.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_side_user_may_move_to_the_server_side() {
    let Some(session) = Session::start().await else { return };
    session.ok_with("apply -f -", DEPLOYMENT).await;
    session.ok_with("apply --server-side --force-conflicts -f -", DEPLOYMENT).await;
    let four = DEPLOYMENT.replace("replicas: 2", "replicas: 4");
    session.ok_with("apply --server-side -f -", &four).await;
    assert_eq!(session.ok("get deploy web -o jsonpath={.spec.replicas}").await, "4");
    session.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn diff_shows_what_apply_would_change() {
    let Some(session) = Session::start().await else { return };
    session.ok_with("apply -f -", DEPLOYMENT).await;
    let same = session.run_with(&["diff", "-f", "-"], DEPLOYMENT).await;
    assert_eq!(same.code, Some(0), "{same:?}");
    let three = DEPLOYMENT.replace("replicas: 2", "replicas: 3");
    let differs = session.run_with(&["diff", "-f", "-"], &three).await;
    assert_eq!(differs.code, Some(1), "{differs:?}");
    assert!(differs.out.contains("+  replicas: 3"), "{differs:?}");
    assert_eq!(session.ok("get deploy web -o jsonpath={.spec.replicas}").await, "2");
    let server = session.run_with(&["diff", "--server-side", "--force-conflicts", "-f", "-"], &three).await;
    assert_eq!(server.code, Some(1), "{server:?}");
    session.end().await;
}
