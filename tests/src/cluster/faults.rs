//! What tests do to a cluster: programs paused, killed, held down and let go.

use std::path::PathBuf;
use std::time::Duration;

use http::Request;
use rustix::process::{Pid, Signal, kill_process};

use super::{Cluster, Error};

/// A program of the cluster that runs again when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component {
    Etcd,
    ApiServer,
    ControllerManager,
    Scheduler,
    Registry,
    RegistryTls,
}

impl Component {
    fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "apiserver",
            Self::ControllerManager => "controller-manager",
            Self::Scheduler => "scheduler",
            Self::Registry => "registry",
            Self::RegistryTls => "registry-tls",
        }
    }
}

/// Between two looks at a file or the API server.
const INTERVAL: Duration = Duration::from_millis(50);
/// Looks until a program runs again: a minute, more with slow answers.
const LOOKS: usize = 1200;

impl Cluster {
    /// Stops etcd in its tracks: the API server's writes and uncached reads hang.
    pub fn pause_etcd(&self) -> Result<(), Error> {
        self.pause(Component::Etcd)
    }

    /// Lets it go on.
    pub fn resume_etcd(&self) -> Result<(), Error> {
        self.resume(Component::Etcd)
    }

    /// Kills the API server and waits until the new one is ready.
    pub async fn restart_apiserver(&self) -> Result<(), Error> {
        self.restart(Component::ApiServer).await
    }

    /// Stops a program in its tracks; its connections stay open.
    pub fn pause(&self, component: Component) -> Result<(), Error> {
        self.signal(component, Signal::STOP)
    }

    /// Lets a paused program go on.
    pub fn resume(&self, component: Component) -> Result<(), Error> {
        self.signal(component, Signal::CONT)
    }

    /// Kills a program and waits until it runs again, and until the API server is ready.
    pub async fn restart(&self, component: Component) -> Result<(), Error> {
        let old = self.process(component)?;
        self.signal(component, Signal::KILL)?;
        for _ in 0..LOOKS {
            if self.process(component).is_ok_and(|new| new != old) {
                return self.ready(component).await;
            }
            tokio::time::sleep(INTERVAL).await;
        }
        Err(Error::NotReady(component.name()))
    }

    /// Kills a program and holds it down until [`Cluster::release`].
    pub fn hold_down(&self, component: Component) -> Result<(), Error> {
        let path = self.hold(component);
        std::fs::write(&path, "").map_err(|source| Error::State { path, source })?;
        self.signal(component, Signal::KILL)
    }

    /// Lets a program that was held down run again, and waits until the API server is ready.
    pub async fn release(&self, component: Component) -> Result<(), Error> {
        let old = self.process(component)?;
        let path = self.hold(component);
        std::fs::remove_file(&path).map_err(|source| Error::State { path, source })?;
        for _ in 0..LOOKS {
            if self.process(component).is_ok_and(|new| new != old) {
                return self.ready(component).await;
            }
            tokio::time::sleep(INTERVAL).await;
        }
        Err(Error::NotReady(component.name()))
    }

    async fn ready(&self, component: Component) -> Result<(), Error> {
        let client = self.client().await?;
        for _ in 0..LOOKS {
            let request = Request::get("/readyz").body(Vec::new()).expect("a plain request");
            let answer = tokio::time::timeout(Duration::from_secs(5), client.request_text(request)).await;
            if matches!(answer, Ok(Ok(text)) if text == "ok") {
                return Ok(());
            }
            tokio::time::sleep(INTERVAL).await;
        }
        Err(Error::NotReady(component.name()))
    }

    fn hold(&self, component: Component) -> PathBuf {
        self.state_dir().join("hold").join(component.name())
    }

    fn process(&self, component: Component) -> Result<Pid, Error> {
        let path = self.state_dir().join("pid").join(component.name());
        let unusable = |source| Error::State { path: path.clone(), source };
        let text = std::fs::read_to_string(&path).map_err(unusable)?;
        let number = text.trim().parse().ok().and_then(Pid::from_raw);
        number.ok_or_else(|| unusable(std::io::Error::other(format!("{text:?} is no process"))))
    }

    fn signal(&self, component: Component, signal: Signal) -> Result<(), Error> {
        kill_process(self.process(component)?, signal)
            .map_err(|error| Error::Signal { component: component.name(), source: error.into() })
    }
}
