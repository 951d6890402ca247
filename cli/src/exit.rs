//! Exit codes and the last line of a failed command.

use std::process::ExitCode;

/// What a failure means for whoever called us.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Failure {
    /// It was tried and did not work.
    Failed = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// A wait ran out.
    TimedOut = 3,
    /// The other side said no.
    Refused = 4,
    /// Nobody is there.
    Unreachable = 5,
    /// Ctrl-C ended it before its time (POSIX: 128 + SIGINT).
    Interrupted = 130,
    /// SIGTERM ended it before its time (POSIX: 128 + SIGTERM).
    Terminated = 143,
}

/// An error with its exit code.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct CommandError {
    pub failure: Failure,
    pub message: String,
}

/// Shorthand for an error with a code.
pub fn fail(failure: Failure, message: impl Into<String>) -> anyhow::Error {
    CommandError { failure, message: message.into() }.into()
}

/// Prints the error and its causes, gives the exit code.
#[expect(clippy::print_stderr, reason = "the command's error message")]
pub fn report(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {}", text(error));
    ExitCode::from(failure(error) as u8)
}

/// The error and its causes in one line, each told once.
pub fn text(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        // Many errors repeat their source in their own text.
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

fn failure(error: &anyhow::Error) -> Failure {
    if let Some(known) = error.downcast_ref::<CommandError>() {
        return known.failure;
    }
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(_)) => Failure::Refused,
        Some(kube::Error::Service(_) | kube::Error::HyperError(_)) => Failure::Unreachable,
        _ => Failure::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_follow_the_table_in_the_documentation() {
        assert_eq!(failure(&fail(Failure::TimedOut, "late")), Failure::TimedOut);
        assert_eq!(failure(&anyhow::anyhow!("other")), Failure::Failed);
        assert_eq!(failure(&fail(Failure::Unreachable, "gone").context("while reading")), Failure::Unreachable);
        assert_eq!(
            [Failure::Failed, Failure::Usage, Failure::TimedOut, Failure::Refused, Failure::Unreachable]
                .map(|f| f as u8),
            [1, 2, 3, 4, 5]
        );
    }
}
