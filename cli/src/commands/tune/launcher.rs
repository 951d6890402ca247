//! Services under the shim that pods run under, too: whatever happens to us, nothing of them stays.

use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use modelway_node::DATA_MARK;
use modelway_node::shim::{ExitRecord, Order as ShimOrder, ShimLimits, ShimSpec};
use modelway_tuner::local::{Exit, Launcher, Order, Process};

/// Bytes of a service's log; one older file is kept.
const LOG_LIMIT: u64 = 4 << 20;
/// Bytes of it that are looked at.
const TAIL: u64 = 64 << 10;
/// How long everything of a service may take to be gone after it was killed; the shim itself gives up after 30 s.
const KILL_LIMIT: Duration = Duration::from_secs(40);
const LOOK: Duration = Duration::from_millis(10);

/// Starts services of one experiment.
pub struct Shims {
    folder: PathBuf,
    executable: PathBuf,
    environment: Vec<(String, String)>,
}

impl Shims {
    /// For an experiment in this folder; services get `environment` and what they ask for.
    pub fn new(folder: &Path, environment: Vec<(String, String)>) -> anyhow::Result<Self> {
        let folder = folder.canonicalize()?;
        let mark = (DATA_MARK.to_owned(), folder.display().to_string());
        let environment = environment.into_iter().filter(|(name, _)| name != DATA_MARK).chain([mark]).collect();
        Ok(Self { folder, executable: std::env::current_exe()?, environment })
    }

    /// `modelway` is this program; a path is relative to the service's folder; anything else is looked for by the shell's
    /// rules.
    fn program(&self, order: &Order) -> PathBuf {
        let name = order.command.first().map(String::as_str).unwrap_or_default();
        match name {
            "modelway" => self.executable.clone(),
            name if name.contains('/') => order.directory.join(name),
            name => PathBuf::from(name),
        }
    }

    fn spec(&self, order: &Order) -> ShimSpec {
        let asked = |name: &String| order.environment.iter().any(|(other, _)| other == name);
        let own = self.environment.iter().filter(|(name, _)| !asked(name));
        ShimSpec {
            program: self.program(order),
            arguments: order.command.iter().skip(1).cloned().collect(),
            environment: own.chain(&order.environment).cloned().collect(),
            working_dir: order.directory.clone(),
            log_file: self.folder.join("service.log"),
            log_limit: LOG_LIMIT,
            exit_file: self.folder.join("service.exit"),
            limits: ShimLimits { cores: order.cores.clone(), data_bytes: order.memory, ..ShimLimits::default() },
        }
    }

    fn spawn(&self, spec: &ShimSpec) -> std::io::Result<Shim> {
        for path in [&spec.log_file, &spec.exit_file] {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        let mut line = serde_json::to_vec(spec)?;
        line.push(b'\n');
        let mut child = Command::new(&self.executable)
            .args(["shim", "service"])
            .env(DATA_MARK, &self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        if let Some(input) = &mut child.stdin {
            input.write_all(&line)?;
        }
        Ok(Shim { child, log_file: spec.log_file.clone(), exit_file: spec.exit_file.clone(), exit: None })
    }
}

impl Launcher for Shims {
    fn start(&mut self, order: &Order) -> Result<Box<dyn Process>, String> {
        let shim = self.spawn(&self.spec(order)).map_err(|error| format!("cannot start a service: {error}"))?;
        Ok(Box::new(shim))
    }
}

/// One service. Dropped, it closes the pipe that keeps its shim alive.
struct Shim {
    child: Child,
    log_file: PathBuf,
    exit_file: PathBuf,
    exit: Option<Exit>,
}

impl Shim {
    fn order(&mut self, order: ShimOrder) {
        if let Some(input) = &mut self.child.stdin {
            // A shim that is gone needs no order.
            let _gone = input.write_all(order.line());
        }
    }

    fn wait(&mut self, limit: Duration) -> Option<Exit> {
        let start = Instant::now();
        loop {
            if let Some(exit) = self.ended() {
                return Some(exit);
            }
            if start.elapsed() > limit {
                return None;
            }
            std::thread::park_timeout(LOOK);
        }
    }

    fn read_exit(&self) -> Exit {
        let log = self.log();
        match ExitRecord::read(&self.exit_file) {
            Ok(record) => Exit {
                code: record.exit_code,
                out_of_memory: record.oom_killed,
                not_started: record.start_error,
                left: None,
                log,
            },
            // Somebody killed the shim: its service went with it.
            Err(_) => Exit { code: 137, log, ..Exit::default() },
        }
    }
}

impl Process for Shim {
    fn ended(&mut self) -> Option<Exit> {
        if self.exit.is_none() && matches!(self.child.try_wait(), Ok(Some(_))) {
            self.exit = Some(self.read_exit());
        }
        self.exit.clone()
    }

    fn stop(&mut self, grace: Duration) -> Exit {
        self.order(ShimOrder::Terminate);
        if let Some(exit) = self.wait(grace) {
            return exit;
        }
        self.order(ShimOrder::Kill);
        if let Some(exit) = self.wait(KILL_LIMIT) {
            return exit;
        }
        let left = format!("something of it still runs after {} s", KILL_LIMIT.as_secs());
        Exit { left: Some(left), ..self.read_exit() }
    }

    fn log(&self) -> Vec<String> {
        tail(&self.log_file).unwrap_or_default()
    }
}

/// The last lines, without the time and the stream before each.
fn tail(path: &Path) -> std::io::Result<Vec<String>> {
    let mut file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    let from = length.saturating_sub(TAIL);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    // The first line may be cut.
    let lines = text.lines().skip(usize::from(from > 0));
    Ok(lines.map(|line| line.splitn(4, ' ').nth(3).unwrap_or_default().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_log_come_without_their_times() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "2026-01-01T00:00:00Z stdout F one two\n2026-01-01T00:00:00Z stderr F \n").unwrap();
        assert_eq!(tail(file.path()).unwrap(), ["one two", ""]);
    }
}
