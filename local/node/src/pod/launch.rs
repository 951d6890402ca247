//! From a container's specification to a running process.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod, Secret, Service};
use kube::api::{Api, ListParams};

use super::downward::Place;
use super::environment::{self, Environment, Objects};
use super::expand::expand;
use super::probe::declared_ports;
use super::record::Reason;
use super::rewrite::Rewriter;
use super::volumes::{self, Roots};
use crate::context::{Context, call, is_missing};
use crate::layout::{EXIT_FILE, log_name};
use crate::limits::Enforced;
use crate::listeners::listeners;
use crate::proc;
use crate::shim::ShimSpec;

/// Annotation that lets a foreign image's command run as a process of this machine.
pub const RUN_AS_PROCESS: &str = "modelway.io/run-as-process";
/// Variable with the real place of the termination message.
pub const TERMINATION_LOG: &str = "MODELWAY_TERMINATION_LOG";

const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const DEFAULT_TERMINATION_PATH: &str = "/dev/termination-log";
const TERMINATION_FILE: &str = "termination-log";

/// A container ready to be run, and to have probes and hooks run beside it.
#[derive(Debug, Clone)]
pub struct Launch {
    pub spec: ShimSpec,
    pub rewriter: Rewriter,
    pub run_dir: PathBuf,
    pub address: Ipv4Addr,
    /// Which limits hold for it.
    pub enforced: Enforced,
}

impl Launch {
    /// A command that runs beside the container, in its environment.
    pub fn beside(&self, executable: &Path, name: &str, command: &[String]) -> ShimSpec {
        let (program, arguments) = split(executable, &self.rewriter, command.to_vec());
        let file = |suffix: &str| self.run_dir.join(format!("{name}.{suffix}"));
        ShimSpec { program, arguments, log_file: file("log"), exit_file: file("json"), ..self.spec.clone() }
    }

    /// Where the container writes its termination message.
    pub fn termination_file(&self) -> PathBuf {
        self.run_dir.join(TERMINATION_FILE)
    }
}

/// What the containers of a pod share.
pub struct Stage<'a> {
    pub pod: &'a Pod,
    pub address: Ipv4Addr,
    pub roots: &'a Roots,
}

/// The place of a pod, for the downward API.
pub fn place(context: &Context, address: Ipv4Addr) -> Place<'_> {
    Place { node: &context.options.name, address, cores: context.cores, memory_bytes: context.memory_bytes }
}

/// Reads what the container needs and lays out its run. An error is a reason to wait.
pub async fn launch(context: &Context, stage: &Stage<'_>, container: &Container, run: u32) -> Result<Launch, Reason> {
    check_image(context, stage.pod, container)?;
    let environment = gather_environment(context, stage, container).await?;
    check_ports(stage, container)?;
    let io_error = |error: io::Error| Reason::new("CreateContainerError", format!("cannot lay out the run: {error}"));
    lay_out(context, stage, container, run, environment).map_err(|error| match error {
        LayoutError::Io(error) => io_error(error),
        LayoutError::Refused(reason) => reason,
    })
}

fn check_image(context: &Context, pod: &Pod, container: &Container) -> Result<(), Reason> {
    let own = container.image.as_deref() == Some(&context.options.image);
    let allowed =
        pod.metadata.annotations.iter().flatten().any(|(key, value)| key == RUN_AS_PROCESS && value == "true");
    let has_command = container.command.iter().flatten().next().is_some();
    if own || (allowed && has_command) {
        return Ok(());
    }
    let image = container.image.as_deref().unwrap_or_default();
    let message = if allowed {
        format!("image {image:?} is not unpacked on this machine, so its own command is unknown: set `command`")
    } else {
        format!(
            "image {image:?} needs a container runtime, which this machine's node does not use: run it on a Kubernetes cluster, \
             or, if its command is installed here, set `command` and annotate the pod with {RUN_AS_PROCESS}: \"true\""
        )
    };
    Err(Reason::new("NeedsContainers", message))
}

async fn gather_environment(
    context: &Context,
    stage: &Stage<'_>,
    container: &Container,
) -> Result<Environment, Reason> {
    let namespace = stage.pod.metadata.namespace.as_deref().unwrap_or_default();
    let client = &context.options.client;
    let unreachable = |what: &str, error: kube::Error| {
        Reason::new("CreateContainerConfigError", format!("cannot read {what}: {error}"))
    };
    let names = environment::names(container);
    let mut objects = Objects::default();
    for name in names.config_maps {
        match call(Api::<ConfigMap>::namespaced(client.clone(), namespace).get(&name)).await {
            Ok(map) => drop(objects.config_maps.insert(name, map)),
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(unreachable(&format!("configmap {name:?}"), error)),
        }
    }
    for name in names.secrets {
        match call(Api::<Secret>::namespaced(client.clone(), namespace).get(&name)).await {
            Ok(secret) => drop(objects.secrets.insert(name, secret)),
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(unreachable(&format!("secret {name:?}"), error)),
        }
    }
    let services = Api::<Service>::namespaced(client.clone(), namespace);
    let services = call(services.list(&ListParams::default())).await.map_err(|error| unreachable("services", error))?;
    let mut base = Environment::default();
    base.set("PATH", DEFAULT_PATH);
    context.options.environment.iter().for_each(|(name, value)| base.set(name, value));
    base.set("HOSTNAME", stage.pod.metadata.name.as_deref().unwrap_or_default());
    base.set("KUBECONFIG", context.options.kubeconfig.display().to_string());
    let place = place(context, stage.address);
    environment::environment(stage.pod, container, &place, &objects, &services.items, base)
}

/// A program of the host that listens on all addresses, or on this one, would answer instead of the container.
fn check_ports(stage: &Stage<'_>, container: &Container) -> Result<(), Reason> {
    for port in declared_ports(container) {
        let held =
            TcpListener::bind((stage.address, port)).is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse);
        if held {
            return Err(Reason::new("PortHeldByHost", held_message(stage.address, port)));
        }
    }
    Ok(())
}

fn held_message(address: Ipv4Addr, port: u16) -> String {
    let holder = listeners(port)
        .into_iter()
        .filter(|listener| listener.address.is_unspecified() || listener.address == address)
        .find_map(|listener| {
            let pid = proc::owner_of(listener.inode, proc::processes().into_iter().map(|process| process.pid))?;
            let name = proc::name(pid).unwrap_or_else(|| "unknown".to_owned());
            Some(format!("process {pid} ({name}), which listens on {}:{port}", listener.address))
        })
        .unwrap_or_else(|| "a process of another user".to_owned());
    format!("port {port} of {address} is held by {holder}: stop it, or let it listen on its own address only")
}

enum LayoutError {
    Io(io::Error),
    Refused(Reason),
}

impl From<io::Error> for LayoutError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn lay_out(
    context: &Context,
    stage: &Stage<'_>,
    container: &Container,
    run: u32,
    mut environment: Environment,
) -> Result<Launch, LayoutError> {
    let metadata = &stage.pod.metadata;
    let uid = metadata.uid.as_deref().unwrap_or_default();
    let (namespace, name) =
        (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default());
    let layout = &context.layout;
    let run_dir = layout.run(uid, &container.name, run);
    let logs = layout.pod_logs(namespace, name, uid).join(&container.name);
    let (home, scratch) = (layout.pod(uid).join("home"), layout.pod(uid).join("tmp"));
    for folder in [&run_dir, &logs, &home, &scratch] {
        std::fs::create_dir_all(folder)?;
    }
    let termination_file = run_dir.join(TERMINATION_FILE);
    std::fs::File::create(&termination_file)?;
    // A reader may come before the shim does.
    std::fs::OpenOptions::new().create(true).append(true).open(logs.join(log_name(run)))?;

    let mut mounts =
        volumes::mounts(container, stage.roots, |name| environment.get(name)).map_err(LayoutError::Refused)?;
    let termination_path = container.termination_message_path.as_deref().filter(|path| !path.is_empty());
    mounts.push((termination_path.unwrap_or(DEFAULT_TERMINATION_PATH).to_owned(), termination_file.clone()));
    let rewriter = Rewriter::new(mounts, layout.root());

    for (name, value) in [("HOME", &home), ("TMPDIR", &scratch)] {
        if environment.get(name).is_none() {
            environment.set(name, value.display().to_string());
        }
    }
    let command: Vec<String> = command(container).map(|part| expand(part, |name| environment.get(name))).collect();
    let (program, arguments) = split(&context.options.executable, &rewriter, command);
    let mut pairs: Vec<(String, String)> =
        environment.into_pairs().into_iter().map(|(name, value)| (name, rewriter.rewrite(&value))).collect();
    pairs.retain(|(name, _)| {
        ![TERMINATION_LOG, crate::sweep::POD_MARK, crate::sweep::DATA_MARK].contains(&name.as_str())
    });
    pairs.push((TERMINATION_LOG.to_owned(), termination_file.display().to_string()));
    pairs.push((crate::sweep::POD_MARK.to_owned(), uid.to_owned()));
    pairs.push(context.data_mark.clone());
    let working_dir = match container.working_dir.as_deref().filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(rewriter.rewrite(folder)),
        None => home,
    };
    let placement = context.limits.place(stage.pod, container);
    let spec = ShimSpec {
        program,
        arguments,
        environment: pairs,
        working_dir,
        log_file: logs.join(log_name(run)),
        log_limit: context.options.log_limit,
        exit_file: run_dir.join(EXIT_FILE),
        limits: placement.shim,
    };
    Ok(Launch { spec, rewriter, run_dir, address: stage.address, enforced: placement.enforced })
}

/// An image's entry point is `modelway` where the specification names none.
fn command(container: &Container) -> impl Iterator<Item = &str> {
    let declared = container.command.iter().flatten().map(String::as_str);
    let own = container.command.iter().flatten().next().is_none().then_some("modelway");
    own.into_iter().chain(declared).chain(container.args.iter().flatten().map(String::as_str))
}

/// The program and its rewritten arguments; `modelway` is our executable, wherever it lies.
fn split(executable: &Path, rewriter: &Rewriter, command: Vec<String>) -> (PathBuf, Vec<String>) {
    let mut command = command.into_iter().map(|part| rewriter.rewrite(&part));
    let program = match command.next() {
        Some(program) if program == "modelway" => executable.to_owned(),
        Some(program) => program.into(),
        None => executable.to_owned(),
    };
    (program, command.collect())
}
