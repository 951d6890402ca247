//! What the end of a service says about its candidate.

use modelway_tune::history::Failure;

/// Texts with which programs say that they got no memory. Which language writes which is beside the point.
const NO_MEMORY: [&str; 8] = [
    "out of memory",
    "cannot allocate memory",
    "memoryerror",
    "std::bad_alloc",
    "memory allocation of",
    "outofmemoryerror",
    "cuda_error_out_of_memory",
    "enomem",
];

/// Lines of a log that are looked at, from its end.
const LINES: usize = 200;

/// How a process ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    /// As a shell reports it: 128 + the signal for a killed process.
    pub code: i32,
    /// It was killed for want of memory.
    pub out_of_memory: bool,
    /// Why it could not be started at all.
    pub not_started: Option<String>,
    /// Something of it could not be ended.
    pub left: Option<String>,
    /// The last lines that it wrote.
    pub log: Vec<String>,
}

impl Exit {
    /// What an end that nobody asked for says, and the same in words. `limited`: it had a memory limit.
    pub fn failure(&self, limited: bool) -> (Failure, String) {
        if let Some(why) = &self.not_started {
            return (Failure::Crash, why.clone());
        }
        if self.out_of_memory {
            return (Failure::OutOfMemory, "it was killed: memory ran out".to_owned());
        }
        if limited && self.code != 0 && self.says_no_memory() {
            return (Failure::OutOfMemory, format!("it got no more memory, and ended with {}", self.status()));
        }
        (Failure::Crash, format!("it ended by itself with {}", self.status()))
    }

    fn says_no_memory(&self) -> bool {
        self.log.iter().rev().take(LINES).any(|line| {
            let line = line.to_lowercase();
            NO_MEMORY.iter().any(|text| line.contains(text))
        })
    }

    fn status(&self) -> String {
        match self.code {
            code @ 129..=192 => format!("signal {}", code - 128),
            code => format!("exit code {code}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(code: i32, log: &[&str]) -> Exit {
        Exit { code, log: log.iter().map(|line| (*line).to_owned()).collect(), ..Exit::default() }
    }

    #[test]
    fn an_end_has_a_cause() {
        assert_eq!(exit(1, &["bad option"]).failure(true).0, Failure::Crash);
        assert!(exit(139, &[]).failure(false).1.contains("signal 11"));
        assert_eq!(Exit { out_of_memory: true, ..exit(137, &[]) }.failure(false).0, Failure::OutOfMemory);
        let started = Exit { not_started: Some("cannot start x".to_owned()), ..exit(128, &[]) };
        assert_eq!(started.failure(false), (Failure::Crash, "cannot start x".to_owned()));
    }

    #[test]
    fn complaints_about_memory_count_only_under_a_limit() {
        let complaint = exit(134, &["memory allocation of 1073741824 bytes failed"]);
        assert_eq!(complaint.failure(true).0, Failure::OutOfMemory);
        assert_eq!(complaint.failure(false).0, Failure::Crash);
        assert_eq!(exit(0, &["MemoryError"]).failure(true).0, Failure::Crash);
    }
}
