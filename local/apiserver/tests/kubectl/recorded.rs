//! The recorded session: each command of a day with kubectl, each from a home without any cache, as the first of its kind.

use serde_json::json;

use super::session::{DEFINITION, DEPLOYMENT, Session, WIDGET};

/// What a command must do.
enum Expected {
    /// Succeed, and print this.
    Prints(&'static str),
    /// Fail, and say this.
    Says(&'static str),
    /// Succeed with a difference found, and print this.
    Differs(&'static str),
}

use Expected::{Differs, Prints, Says};

const LIST: &str = r"
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: l1}, data: {a: b}}
- {apiVersion: example.com/v1, kind: Widget, metadata: {name: listed}, spec: {size: 1}}
";
const BAD_LIST: &str = r"
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: l2}, dota: {a: b}}
";
const SERVICE: &str = r"
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{name: a, port: 80}, {name: b, port: 81}]}
";
const UNKNOWN_KIND: &str = "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: x}, spec: {}}";
const QUOTA: &str = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {pods: '5'}}}";

/// A command, what is written to it, and what comes of it.
type Step = (&'static str, String, Expected);

/// The session, in order.
fn session() -> impl Iterator<Item = Step> {
    [discovery(), custom_kinds(), built_in_kinds(), mixtures(), limits()].into_iter().flatten()
}

fn text(text: &str) -> String {
    text.to_owned()
}

/// What the server has.
fn discovery() -> Vec<Step> {
    vec![
        ("version", text(""), Prints("Server Version: v1.37.2")),
        ("api-resources", text(""), Prints("resourcequotas")),
        ("api-versions", text(""), Prints("rbac.authorization.k8s.io/v1")),
        ("cluster-info", text(""), Prints("is running at")),
        ("get --raw /healthz", text(""), Prints("ok")),
        ("get --raw /openapi/v2", text(""), Prints("\"swagger\":\"2.0\"")),
        ("get ns", text(""), Prints("kube-system")),
    ]
}

/// A kind of the user's own.
fn custom_kinds() -> Vec<Step> {
    let bigger = WIDGET.replace("size: 3", "size: 4");
    vec![
        (
            "apply -f -",
            text(DEFINITION),
            Prints("customresourcedefinition.apiextensions.k8s.io/widgets.example.com created"),
        ),
        ("wait --for=condition=Established crd/widgets.example.com --timeout=20s", text(""), Prints("condition met")),
        ("apply -f -", text(WIDGET), Prints("widget.example.com/a created")),
        ("apply -f -", text(WIDGET), Prints("widget.example.com/a unchanged")),
        ("diff -f -", bigger.clone(), Differs("+  size: 4")),
        ("diff --server-side -f -", bigger.clone(), Differs("+  size: 4")),
        ("apply --server-side -f -", bigger.clone(), Prints("widget.example.com/a serverside-applied")),
        ("apply --dry-run=server -f -", text(WIDGET), Prints("widget.example.com/a configured (server dry run)")),
        ("get wd a -o jsonpath={.spec.size}:{.metadata.generation}", text(""), Prints("4:2")),
        ("apply -f -", bigger.replace("size: 4", "size: bad"), Says("spec.size in body must be of type integer")),
        ("apply -f -", bigger.replace("size: 4", "sice: 4"), Says("unknown field \"spec.sice\"")),
        ("apply --server-side -f -", bigger.replace("size: 4", "sice: 4"), Says("field not declared in schema")),
        ("get widgets", text(""), Prints("SIZE")),
        ("get wd -o wide", text(""), Prints("NOTE")),
        ("get things", text(""), Prints("a")),
        ("get wd a -o yaml", text(""), Prints("note: none")),
        ("get wd -A", text(""), Prints("default")),
        ("describe wd a", text(""), Prints("Events:")),
        ("explain wd.spec", text(""), Prints("What the widget should be.")),
        ("explain wd --recursive", text(""), Prints("weight")),
        ("explain pod.spec.volumes.image", text(""), Prints("represents an OCI object")),
        ("explain job.spec.podFailurePolicy --recursive", text(""), Prints("onExitCodes")),
        ("explain pods --output=plaintext-openapiv2", text(""), Prints("KIND:     Pod")),
        ("scale wd a --replicas=3", text(""), Prints("scaled")),
        ("annotate wd a x=y", text(""), Prints("annotated")),
        ("label wd a x=y", text(""), Prints("labeled")),
        (r#"patch wd a --type=merge -p {"spec":{"size":4}}"#, text(""), Prints("patched")),
        (r#"patch wd a --subresource=status --type=merge -p {"status":{"size":9}}"#, text(""), Prints("patched")),
        ("get wd a --subresource=status -o jsonpath={.status.size}:{.spec.size}", text(""), Prints("9:4")),
        ("get wd a --subresource=scale -o jsonpath={.kind}:{.spec.replicas}", text(""), Prints("Scale:4")),
        (
            r#"patch wd a --type=strategic -p {"spec":{"size":4}}"#,
            text(""),
            Says("strategic-merge-patch+json is not supported"),
        ),
        ("wait --for=jsonpath={.spec.size}=4 wd/a --timeout=5s", text(""), Prints("condition met")),
        ("wait --for=create wd/a --timeout=5s", text(""), Prints("condition met")),
    ]
}

/// Workloads and services.
fn built_in_kinds() -> Vec<Step> {
    let smaller_deployment =
        DEPLOYMENT.replace(", ports: [{containerPort: 8080}]", "").replace("replicas: 2", "replicas: 3");
    vec![
        ("apply -f -", text(DEPLOYMENT), Prints("deployment.apps/web created")),
        ("apply -f -", smaller_deployment, Prints("deployment.apps/web configured")),
        ("get deploy web -o jsonpath={.spec.replicas}", text(""), Prints("3")),
        ("rollout status deploy/web --timeout=1s", text(""), Says("timed out")),
        ("rollout pause deploy/web", text(""), Prints("paused")),
        ("rollout resume deploy/web", text(""), Prints("resumed")),
        ("rollout restart deploy/web", text(""), Prints("restarted")),
        ("set env deploy/web Z=z", text(""), Prints("env updated")),
        ("set resources deploy/web --limits=cpu=1", text(""), Prints("resource requirements updated")),
        ("scale deploy web --replicas=0", text(""), Prints("scaled")),
        ("apply -f -", text(SERVICE), Prints("service/web created")),
        ("apply -f -", SERVICE.replace("{name: a, port: 80}, ", ""), Prints("service/web configured")),
        ("get svc web -o jsonpath={.spec.ports[*].name}", text(""), Prints("b")),
        ("replace -f -", text(SERVICE), Prints("service/web replaced")),
        ("expose deploy web --name=exposed --port=80", text(""), Prints("service/exposed exposed")),
        ("get deploy,rs,pods", text(""), Prints("deployment.apps/web")),
        ("get all", text(""), Prints("service/web")),
        ("describe deploy web", text(""), Prints("RollingUpdateStrategy")),
        ("describe svc web", text(""), Prints("TargetPort")),
        ("get events", text(""), Prints("")),
        ("events", text(""), Prints("")),
    ]
}

/// Lists, events, pods, deletions.
fn mixtures() -> Vec<Step> {
    vec![
        ("apply -f -", text(LIST), Prints("widget.example.com/listed created")),
        ("apply -f -", text(BAD_LIST), Says("unknown field \"dota\"")),
        ("apply -f -", text(UNKNOWN_KIND), Says("no matches for kind \"DaemonSet\"")),
        ("apply -f -", text(QUOTA), Prints("resourcequota/q created")),
        ("describe quota q", text(""), Prints("Name:       q")),
        ("run p --image=x --restart=Never", text(""), Prints("pod/p created")),
        ("describe pod p", text(""), Prints("Image:")),
        ("get pods -w --request-timeout=1s", text(""), Prints("Pending")),
        ("delete pod p --now", text(""), Prints("deleted")),
        ("delete wd a --dry-run=server", text(""), Prints("(server dry run)")),
        ("delete wd a", text(""), Prints("deleted")),
        ("delete -f -", text(DEPLOYMENT), Prints("deleted")),
    ]
}

/// Beyond what the server does: each with a clear answer.
fn limits() -> Vec<Step> {
    vec![
        ("create configmap c --from-literal=a=b", text(""), Says("kubectl apply")),
        ("create ns x", text(""), Says("kubectl apply")),
        ("create token default", text(""), Says("the only token")),
        ("auth can-i create pods", text(""), Says("no authorisation here")),
        ("top pods", text(""), Says("Metrics API not available")),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_session_does_what_is_expected() {
    let Some(kubectl) = Session::start().await else { return };
    for (command, input, expected) in session() {
        kubectl.forget_home();
        let printed = kubectl.run_with(&command.split(' ').collect::<Vec<_>>(), &input).await;
        let (code, text, found) = match expected {
            Prints(text) => (0, text, &printed.out),
            Says(text) => (1, text, &printed.err),
            Differs(text) => (1, text, &printed.out),
        };
        assert_eq!(printed.code, Some(code), "kubectl {command}: {printed:?}");
        assert!(found.contains(text), "kubectl {command} does not say {text:?}: {printed:?}");
    }
    kubectl.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_without_effect_are_kept_with_a_warning() {
    let Some(session) = Session::start().await else { return };
    let role = "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r}, \
                rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]}";
    let applied = session.run_with(&["apply", "-f", "-"], role).await;
    assert!(applied.success && applied.err.contains("Warning: Role objects are kept"), "{applied:?}");
    assert_eq!(session.ok_with("apply -f -", role).await, "role.rbac.authorization.k8s.io/r unchanged\n");
    assert!(session.ok("describe role r").await.contains("pods"));
    session.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_is_explained_and_listed() {
    let Some(session) = Session::start().await else { return };
    let resources = session.ok("api-resources --verbs=list -o name").await;
    for resource in resources.lines() {
        let (plural, _) = resource.split_once('.').unwrap_or((resource, ""));
        session.ok(&format!("explain {plural} --recursive")).await;
        session.ok(&format!("get {resource} -A")).await;
    }
    assert!(resources.lines().count() >= 24, "{resources}");
    session.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn revisions_are_listed_and_gone_back_to() {
    let Some(session) = Session::start().await else { return };
    session.ok_with("apply -f -", DEPLOYMENT).await;
    let uid = session.ok("get deploy web -o jsonpath={.metadata.uid}").await;
    for (revision, image) in [("1", "example:0"), ("2", "example:1")] {
        let labels = json!({"app": "web", "pod-template-hash": revision});
        let set = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": format!("web-{revision}"), "labels": labels,
                "annotations": {"deployment.kubernetes.io/revision": revision},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": uid,
                    "controller": true}]},
            "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": image}]}}},
        });
        session.ok_with("create -f -", &set.to_string()).await;
    }
    let history = session.ok("rollout history deploy/web").await;
    assert!(history.contains("REVISION") && history.lines().count() >= 4, "{history}");
    assert!(session.ok("rollout history deploy/web --revision=1").await.contains("example:0"));
    session.ok("rollout undo deploy/web --to-revision=1").await;
    assert_eq!(session.ok("get deploy web -o jsonpath={.spec.template.spec.containers[0].image}").await, "example:0");
    session.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dependents_stay_or_go_as_the_delete_says() {
    let Some(session) = Session::start().await else { return };
    session.ok_with("apply -f -", "{apiVersion: v1, kind: ConfigMap, metadata: {name: owner}}").await;
    let uid = session.ok("get cm owner -o jsonpath={.metadata.uid}").await;
    let owned = |name: &str, uid: &str| {
        format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, ownerReferences: [{{apiVersion: v1, \
             kind: ConfigMap, name: owner, uid: {uid}, blockOwnerDeletion: true}}]}}}}"
        )
    };
    session.ok_with("apply -f -", &owned("kept", &uid)).await;
    session.ok("delete cm owner --cascade=orphan --timeout=20s").await;
    assert_eq!(session.ok("get cm kept -o jsonpath={.metadata.ownerReferences}").await, "");
    session.ok_with("apply -f -", "{apiVersion: v1, kind: ConfigMap, metadata: {name: owner}}").await;
    let uid = session.ok("get cm owner -o jsonpath={.metadata.uid}").await;
    session.ok_with("apply -f -", &owned("gone", &uid)).await;
    session.ok("delete cm owner --cascade=foreground --timeout=20s").await;
    assert!(session.run("get cm gone").await.err.contains("not found"));
    session.end().await;
}
