//! Runs the binary on a data folder of its own, with ports of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use kube::config::{Config, KubeConfigOptions, Kubeconfig};

/// The binary under test.
pub const MODELWAY: &str = env!("CARGO_BIN_EXE_modelway");
/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// A data folder; everything in it and everything that runs on it is gone at the end.
pub struct Scratch {
    folder: tempfile::TempDir,
}

impl Scratch {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A command of the binary with this data folder in its environment.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(MODELWAY);
        command.args(arguments).env("MODELWAY_DATA_DIR", self.data()).env_remove("KUBECONFIG").env_remove("RUST_LOG");
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).stdin(Stdio::null()).output().unwrap()
    }

    /// Starts `up` and waits until it is ready.
    pub fn up(&self) -> Platform {
        self.up_with(&["--api-port", "0", "--registry-port", "0"])
    }

    /// Starts `up` with these flags and waits until it is ready.
    pub fn up_with(&self, flags: &[&str]) -> Platform {
        let log = self.folder.path().join("platform.log");
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&log).unwrap();
        let mut command = self.command(&["up"]);
        let child =
            command.args(flags).stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        let mut platform = Platform { child, data: self.data(), log };
        platform.wait_until_ready();
        platform
    }

    /// Processes that still carry the mark of this data folder.
    pub fn leftovers(&self) -> Vec<String> {
        let mark = format!("={}", self.data().display());
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            let marked = environment.split(|byte| *byte == 0).any(|variable| {
                let variable = String::from_utf8_lossy(variable);
                variable.starts_with("MODELWAY_NODE_DATA") && variable.ends_with(&mark)
            });
            if marked && name.parse::<u32>().is_ok() {
                let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
                found.push(format!("{name}: {}", String::from_utf8_lossy(&line).replace('\0', " ")));
            }
        }
        found
    }

    /// Waits until nothing of this data folder runs.
    pub fn wait_until_nothing_is_left(&self) {
        eventually("no process is left", || {
            let left = self.leftovers();
            if left.is_empty() { Ok(()) } else { Err(format!("{left:#?}")) }
        });
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Also ends what a failed test left running.
        let _best_effort = self.run(&["down", "--purge"]);
    }
}

/// A platform in a process of its own.
pub struct Platform {
    child: Child,
    data: PathBuf,
    log: PathBuf,
}

impl Platform {
    fn wait_until_ready(&mut self) {
        let start = Instant::now();
        let file = self.data.join("instance.json");
        loop {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            if text.contains(&format!("\"pid\":{},", self.child.id())) {
                return;
            }
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "the platform ended ({ended:?}): {}", self.log());
            assert!(start.elapsed() < PATIENCE, "the platform is not ready: {}", self.log());
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// A client over TLS, as any program outside has it.
    pub async fn client(&self) -> kube::Client {
        let _installed = rustls::crypto::ring::default_provider().install_default();
        let kubeconfig = Kubeconfig::read_from(self.data.join("kubeconfig")).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        kube::Client::try_from(config).unwrap()
    }

    /// SIGKILL to the platform alone, as the kernel's out-of-memory killer would.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Platform {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// Tries until it works; the last reason is in the failure.
pub fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        match attempt() {
            Ok(value) => return value,
            Err(reason) => assert!(start.elapsed() < PATIENCE, "{what}: {reason}"),
        }
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

/// Standard output and error together, for messages of failed assertions.
pub fn text(output: &Output) -> String {
    format!("{}\n{}{}", output.status, String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Whether a program is on the PATH.
pub fn exists(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| Path::new(&folder).join(program).is_file())
}
