//! What `/proc` says: who descends from whom, who carries which environment mark, who holds which socket.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

/// One process as its `stat` line shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    pub parent: i32,
    pub zombie: bool,
}

/// All processes that can be seen now; those that end while we look are left out.
pub fn processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|pid| parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?))
        .collect()
}

/// The name of a command may hold spaces and parentheses, so fields are counted from the last `)`.
fn parse_stat(line: &str) -> Option<Process> {
    let pid = line.split(' ').next()?.parse().ok()?;
    let mut fields = line[line.rfind(')')? + 1..].split_ascii_whitespace();
    let zombie = matches!(fields.next()?, "Z" | "X");
    Some(Process { pid, parent: fields.next()?.parse().ok()?, zombie })
}

/// Live processes below `root`, without `root` itself.
pub fn descendants(root: i32) -> Vec<i32> {
    descendants_in(&processes(), root)
}

fn descendants_in(all: &[Process], root: i32) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(*process);
    }
    let (mut found, mut queue, mut seen) = (Vec::new(), vec![root], HashSet::from([root]));
    while let Some(parent) = queue.pop() {
        for child in children.get(&parent).into_iter().flatten() {
            if seen.insert(child.pid) {
                queue.push(child.pid);
                if !child.zombie {
                    found.push(child.pid);
                }
            }
        }
    }
    found
}

/// This process and everything above it.
pub fn ancestry(pid: i32) -> HashSet<i32> {
    let parents: HashMap<i32, i32> = processes().into_iter().map(|p| (p.pid, p.parent)).collect();
    let mut line = HashSet::new();
    let mut next = Some(pid);
    while let Some(pid) = next.filter(|pid| *pid > 0 && line.insert(*pid)) {
        next = parents.get(&pid).copied();
    }
    line
}

/// Live processes whose environment holds the entry `NAME=value` exactly.
pub fn with_environment(entry: &str) -> Vec<i32> {
    processes()
        .into_iter()
        .filter(|process| !process.zombie)
        .filter(|process| {
            fs::read(format!("/proc/{}/environ", process.pid))
                .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|item| item == entry.as_bytes()))
        })
        .map(|process| process.pid)
        .collect()
}

/// The short name of a process, for messages.
pub fn name(pid: i32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_owned())
}

/// Which of `pids` holds the socket `inode` open.
pub fn owner_of(inode: u64, pids: impl IntoIterator<Item = i32>) -> Option<i32> {
    let wanted = format!("socket:[{inode}]");
    pids.into_iter().find(|pid| {
        fs::read_dir(format!("/proc/{pid}/fd")).is_ok_and(|entries| {
            entries.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target == Path::new(&wanted)))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_parent_past_a_name_with_parentheses() {
        let process = parse_stat("42 (a) (b c) S 7 42 42 0").unwrap();
        assert_eq!(process, Process { pid: 42, parent: 7, zombie: false });
        assert!(parse_stat("42 (gone) Z 7 0").unwrap().zombie);
        assert_eq!(parse_stat("nonsense"), None);
    }

    #[test]
    fn finds_grandchildren_and_survives_loops() {
        let process = |pid, parent, zombie| Process { pid, parent, zombie };
        let all = [process(2, 1, false), process(3, 2, true), process(4, 3, false), process(1, 4, false)];
        let mut found = descendants_in(&all, 1);
        found.sort_unstable();
        assert_eq!(found, [2, 4]);
    }

    #[test]
    fn sees_own_listener_and_its_owner() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let found = crate::listeners::listeners(port).pop().unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(owner_of(found.inode, [own]), Some(own));
        assert!(ancestry(own).contains(&own));
    }
}
