//! Nodes: the two of level node, and made-up ones for the scheduler.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::process::Command;

use super::handle::succeed;
use super::{Cluster, Error, Registry};

/// An image on every node with a shell and the usual tools: Debian's busybox.
pub const BUSYBOX: &str = "bench.local/busybox:1";

/// The nodes of level node.
const NODES: [&str; 2] = ["node1", "node2"];

impl Cluster {
    /// The names of the nodes that run pods.
    pub fn nodes(&self) -> Result<[&'static str; 2], Error> {
        self.need_nodes("nodes that run pods")?;
        Ok(NODES)
    }

    /// This machine's address as pods see it.
    pub fn host_address(&self) -> Result<&str, Error> {
        self.need_nodes("pods")?;
        Ok(&self.guard.facts.host_address)
    }

    /// What starts a program inside a node's namespaces; the program and its arguments follow.
    pub fn enter_command(&self, node: &str) -> Result<Vec<OsString>, Error> {
        self.need_nodes("nodes to enter")?;
        let path = self.state_dir().join("pid").join(node);
        let process = std::fs::read_to_string(&path).map_err(|source| Error::State { path, source })?;
        Ok(["nsenter", "-t", process.trim(), "-n", "-m", "-p"].map(OsString::from).to_vec())
    }

    /// Gives both nodes an image: an OCI archive or an OCI layout folder with one image in it.
    pub async fn import_image(&self, source: &Path, name: &str) -> Result<(), Error> {
        let archive = if source.is_dir() { self.archive(source).await? } else { source.to_owned() };
        for node in self.nodes()? {
            let archive = archive.to_string_lossy();
            self.ctr(node, &["images", "import", "--local", "--index-name", name, &archive]).await?;
        }
        Ok(())
    }

    /// Makes an image of one layer of a folder, with an entrypoint that is split at spaces, and gives it to both nodes.
    pub async fn make_image(&self, folder: &Path, name: &str, entrypoint: &str) -> Result<(), Error> {
        self.need_nodes("images")?;
        let archive = self.state_dir().join("made.tar");
        let mut command = Command::new(self.guard.facts.mkimage.join("mkimage"));
        command.arg("-o").arg(&archive).args(["-name", name, "-entrypoint", entrypoint]).arg(folder);
        succeed(&mut command, "").await?;
        self.import_image(&archive, name).await
    }

    async fn archive(&self, layout: &Path) -> Result<PathBuf, Error> {
        let archive = self.state_dir().join("import.tar");
        succeed(Command::new("tar").arg("-C").arg(layout).arg("-cf").arg(&archive).arg("."), "").await?;
        Ok(archive)
    }

    /// Pushes an image of the first node to a registry, and gives the name that it has there.
    pub async fn push_image(&self, image: &str, registry: &Registry) -> Result<String, Error> {
        let name = format!("{}/{}", registry.host, image.rsplit('/').next().unwrap_or(image));
        let [node, _] = self.nodes()?;
        self.ctr(node, &["images", "tag", "--force", image, &name]).await?;
        let login = registry.login.map(|(user, password)| format!("{user}:{password}"));
        let authority = registry.authority.as_ref().map(|path| path.to_string_lossy());
        let mut arguments = vec!["images", "push", "--local"];
        match &authority {
            Some(path) => arguments.extend(["--tlscacert", path]),
            None => arguments.push("--plain-http"),
        }
        arguments.extend(login.iter().flat_map(|login| ["--user", login]));
        arguments.push(&name);
        self.ctr(node, &arguments).await?;
        Ok(name)
    }

    /// What containerd's own tool prints on a node.
    pub async fn ctr(&self, node: &str, arguments: &[&str]) -> Result<String, Error> {
        let enter = self.enter_command(node)?;
        let mut command = Command::new(&enter[0]);
        command.args(&enter[1..]).arg(self.guard.facts.node.join("ctr"));
        command.args(["-a", "/run/containerd/containerd.sock", "-n", "k8s.io"]).args(arguments);
        succeed(&mut command, "").await
    }

    /// Makes up a node that the scheduler takes for ready: pods get bound to it, and nothing runs them.
    pub async fn fake_node(&self, name: &str) -> Result<(), Error> {
        let refused = |source| Error::Api { what: format!("Node {name}"), source: Box::new(source) };
        let nodes: Api<Node> = Api::all(self.client().await?);
        let mut node = Node::default();
        node.metadata.name = Some(name.to_owned());
        node.metadata.labels = Some([("kubernetes.io/hostname".to_owned(), name.to_owned())].into());
        nodes.create(&PostParams::default(), &node).await.map_err(refused)?;
        let room = json!({"cpu": "64", "memory": "256Gi", "pods": "1000"});
        let condition = json!({"type": "Ready", "status": "True", "reason": "MadeUp"});
        let status = json!({"status": {"capacity": room, "allocatable": room, "conditions": [condition]}});
        nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.map_err(refused)?;
        Ok(())
    }
}
