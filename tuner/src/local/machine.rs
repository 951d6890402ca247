//! What this machine is, for the record.

use super::cores::Cores;
use crate::record::Machine;

/// Facts of this machine.
pub fn facts(cores: &Cores) -> Machine {
    let system = rustix::system::uname();
    let text = |value: &std::ffi::CStr| value.to_string_lossy().into_owned();
    let mut all: Vec<usize> = cores.generator.iter().chain(&cores.service).copied().collect();
    all.sort_unstable();
    all.dedup();
    Machine {
        nodes: vec![text(system.nodename())],
        cpu: cpu_model(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
        cores: all.len(),
        memory: memory(),
        system: format!("{} {} {}", text(system.sysname()), text(system.release()), text(system.machine())),
        notes: vec![cores.describe()],
    }
}

/// Bytes of memory.
pub fn memory() -> u64 {
    let table = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = table.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn cpu_model(table: &str) -> String {
    let names = ["model name", "Model", "cpu model", "Hardware"];
    let line = table.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        names.contains(&name.trim()).then(|| value.trim().to_owned())
    });
    line.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_tells_its_name_and_memory() {
        let found = facts(&Cores::share(&[0, 1], 1));
        assert!(found.memory > 1 << 20 && found.cores == 2 && !found.nodes[0].is_empty(), "{found:?}");
        assert_eq!(cpu_model("processor : 0\nmodel name\t: A CPU @ 2 GHz\n"), "A CPU @ 2 GHz");
    }
}
