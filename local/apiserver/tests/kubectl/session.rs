//! One server over TLS and a person at a shell with its kubeconfig.

use std::{path::PathBuf, process::Stdio, sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
};
use modelway_apiserver::{ApiServer, LogError, LogRequest, LogStream, Options, PodLogs};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    net::TcpListener,
    process::{Child, ChildStdout, Command},
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// Far above what any command here needs, also on a busy machine.
const LIMIT: Duration = Duration::from_mins(1);

pub struct Session {
    pub server: ApiServer,
    pub folder: tempfile::TempDir,
    pub address: std::net::SocketAddr,
    kubectl: PathBuf,
    /// The home of the commands: what kubectl keeps of the server between them.
    home: Mutex<tempfile::TempDir>,
    stop: CancellationToken,
    serving: Option<JoinHandle<()>>,
}

/// What a command printed.
#[derive(Debug)]
pub struct Printed {
    pub success: bool,
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Session {
    #[expect(clippy::print_stdout, reason = "a skipped test says so")]
    /// `None`, and a line that says why, when there is no kubectl.
    pub async fn start() -> Option<Self> {
        let kubectl = match super::binary::kubectl() {
            Ok(kubectl) => kubectl,
            Err(reason) => {
                assert!(std::env::var_os("MODELWAY_REQUIRE_PEERS").is_none(), "kubectl is required here: {reason}");
                println!("SKIPPED: {reason}");
                return None;
            }
        };
        let folder = tempfile::tempdir().unwrap();
        let server = ApiServer::open(Options::new(folder.path())).unwrap();
        server.set_pod_logs(Arc::new(FakeLogs));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        std::fs::write(folder.path().join("kubeconfig"), server.kubeconfig(address)).unwrap();
        let stop = CancellationToken::new();
        let serving = tokio::spawn({
            let (server, stop) = (server.clone(), stop.clone());
            async move { server.serve(listener, stop).await.unwrap() }
        });
        let home = Mutex::new(tempfile::tempdir().unwrap());
        Some(Self { server, folder, address, kubectl, home, stop, serving: Some(serving) })
    }

    /// The next command knows nothing of the server.
    pub fn forget_home(&self) {
        *self.home.lock() = tempfile::tempdir().unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.kubectl);
        command
            .env_clear()
            .env("HOME", self.home.lock().path())
            .env("PATH", "/usr/bin:/bin")
            .env("KUBECONFIG", self.folder.path().join("kubeconfig"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Runs kubectl with a text on its standard input.
    pub async fn run_with(&self, arguments: &[&str], input: &str) -> Printed {
        let mut child = self.command(arguments).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).await.unwrap();
        drop(stdin);
        let output = timeout(LIMIT, child.wait_with_output()).await.expect("kubectl ends in time").unwrap();
        Printed {
            success: output.status.success(),
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Runs a command line split at spaces.
    pub async fn run(&self, line: &str) -> Printed {
        self.run_with(&line.split(' ').collect::<Vec<_>>(), "").await
    }

    /// Runs a command line that must succeed; returns what it printed.
    pub async fn ok(&self, line: &str) -> String {
        let printed = self.run(line).await;
        assert!(printed.success, "kubectl {line}: {printed:?}");
        printed.out
    }

    /// Like [`Session::ok`], with a manifest on standard input.
    pub async fn ok_with(&self, line: &str, manifest: &str) -> String {
        let printed = self.run_with(&line.split(' ').collect::<Vec<_>>(), manifest).await;
        assert!(printed.success, "kubectl {line}: {printed:?}");
        printed.out
    }

    /// Starts a command that goes on, and reads its lines.
    pub fn follow(&self, line: &str) -> (Child, Lines<BufReader<ChildStdout>>) {
        let mut child = self.command(&line.split(' ').collect::<Vec<_>>()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, lines)
    }

    pub fn client(&self) -> Client {
        self.server.client("default")
    }

    /// Writes the status of an object, as its controller would.
    pub async fn set_status(&self, group: &str, kind: &str, name: &str, status: &Value) {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
        let api: Api<DynamicObject> = Api::default_namespaced_with(self.client(), &resource);
        let patch = serde_json::json!({"status": status});
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Ends the server and waits for it.
    pub async fn end(mut self) {
        self.server.shutdown();
        self.stop.cancel();
        timeout(LIMIT, self.serving.take().unwrap()).await.expect("the server ends in time").unwrap();
    }
}

/// The next line within the limit.
pub async fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> String {
    timeout(LIMIT, lines.next_line()).await.expect("a line in time").unwrap().expect("one more line")
}

/// The words of each line, for tables.
pub fn cells(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect()).collect()
}

/// Logs that say what they were asked for.
struct FakeLogs;

impl PodLogs for FakeLogs {
    fn open(&self, request: LogRequest) -> BoxFuture<'_, Result<LogStream, LogError>> {
        async move {
            if request.previous {
                return Err(LogError::NoPrevious);
            }
            let container = request.container.unwrap_or_default();
            let count = request.tail_lines.unwrap_or(3);
            let lines = (0..count).map(move |index| Ok(format!("{container} line {index}\n").into()));
            let lines = stream::iter(lines.collect::<Vec<_>>());
            // A followed log stays open: the client decides when to go.
            Ok(if request.follow { lines.chain(stream::pending()).boxed() } else { lines.boxed() })
        }
        .boxed()
    }
}

pub const DEPLOYMENT: &str = r"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: c
        image: example:1
        env: [{name: A, value: one}]
        ports: [{containerPort: 8080}]
";

pub const POD: &str = r"
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: web}}
spec:
  nodeName: local
  containers:
  - {name: c, image: 'example:1'}
";

pub const DEFINITION: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, shortNames: [wd], categories: [all, things]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Note, type: string, jsonPath: .spec.note, priority: 1}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            description: What the widget should be.
            required: [size]
            properties:
              size: {type: integer, minimum: 0, description: How big it is.}
              note: {type: string, default: none}
              parts:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties: {name: {type: string}, weight: {type: integer}}
          status:
            type: object
            properties:
              size: {type: integer}
              conditions:
                type: array
                items: {type: object, x-kubernetes-preserve-unknown-fields: true}
";

pub const WIDGET: &str = r"
apiVersion: example.com/v1
kind: Widget
metadata: {name: a}
spec: {size: 3}
";
