//! The chart, installed once for all tests of the process.

use std::path::{Path, PathBuf};
use std::process::Command;

use kube::Client;
use modelway_tests::cluster::{self, BUSYBOX, Cluster, Level};
use modelway_tests::flows::{Flow, Images};
use tokio::sync::{OnceCell, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Archive of the image under test, from `cargo xtask image`.
const IMAGE: &str = "MODELWAY_TEST_IMAGE";
/// Where this is set, what is missing is a failure.
const REQUIRE: &str = "MODELWAY_REQUIRE_PEERS";
/// Namespace and name of the release.
pub const RELEASE: &str = "modelway-system";
/// Name of the image on the nodes.
pub const OWN_IMAGE: &str = "bench.local/modelway:test";
/// Volumes for the claims of all flows.
const VOLUMES: usize = 40;

/// A cluster with the chart in it.
pub struct Installed {
    pub cluster: &'static Cluster,
    /// Flows share the cluster; what others would notice has it alone.
    alone: RwLock<()>,
}

/// The cluster with the chart in it; where there can be none, says why the test is skipped.
pub async fn installed() -> Option<&'static Installed> {
    static INSTALLED: OnceCell<Option<Installed>> = OnceCell::const_new();
    INSTALLED.get_or_init(install).await.as_ref()
}

#[expect(clippy::print_stderr, reason = "a test that is skipped says why")]
async fn install() -> Option<Installed> {
    let Some(image) = std::env::var_os(IMAGE).map(PathBuf::from) else {
        assert!(std::env::var_os(REQUIRE).is_none(), "{IMAGE} names no image archive: run `cargo xtask test`");
        eprintln!("SKIPPED: {IMAGE} does not name an archive that `cargo xtask image` wrote");
        return None;
    };
    let cluster = cluster::shared(Level::Node).await?;
    cluster.import_image(&image, OWN_IMAGE).await.unwrap();
    cluster.host_volumes(VOLUMES).await.unwrap();
    cluster.kubectl_ok(&["create", "namespace", RELEASE]).await.unwrap();
    let label = "pod-security.kubernetes.io/enforce=restricted";
    cluster.kubectl_ok(&["label", "namespace", RELEASE, label]).await.unwrap();
    let installed = Installed { cluster, alone: RwLock::new(()) };
    installed.helm(&["install", "modelway"], &installed.values()).await;
    Some(installed)
}

impl Installed {
    /// Values that every release here has.
    pub fn values(&self) -> Vec<String> {
        let registry = self.cluster.registry().unwrap().host;
        [
            "image.repository=bench.local/modelway".to_owned(),
            "image.tag=test".to_owned(),
            format!("defaultRegistry={registry}"),
            format!("plainHttpRegistries={{{registry}}}"),
        ]
        .into()
    }

    /// Runs helm with the chart, and waits as users do.
    pub async fn helm(&self, verb: &[&str], values: &[String]) {
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/modelway");
        let mut command = Command::new(helm());
        command.args(verb).arg(chart).args(["--namespace", RELEASE, "--wait", "--timeout", "3m"]);
        command.arg("--kubeconfig").arg(self.cluster.kubeconfig());
        for value in values {
            command.args(["--set", value]);
        }
        let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
        if !output.status.success() {
            let pods = self.cluster.kubectl_ok(&["describe", "pods", "-n", RELEASE]).await.unwrap_or_default();
            panic!("helm: {}\n{pods}", String::from_utf8_lossy(&output.stderr));
        }
    }

    /// A flow's namespace, with the images that the nodes have.
    pub async fn flow(&self, namespace: &str) -> anyhow::Result<Flow> {
        let images = Images { own: OWN_IMAGE.to_owned(), shell: BUSYBOX.to_owned() };
        Flow::with_images(self.client().await, namespace, images).await
    }

    pub async fn client(&self) -> Client {
        self.cluster.client().await.unwrap()
    }

    /// With others.
    pub async fn together(&self) -> RwLockReadGuard<'_, ()> {
        self.alone.read().await
    }

    /// Without others.
    pub async fn alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.alone.write().await
    }
}

/// Helm 4, built from its Go module.
pub fn helm() -> PathBuf {
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cluster/build.sh");
    let output = Command::new(build).arg("helm").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Path::new(String::from_utf8_lossy(&output.stdout).trim()).join("helm")
}
