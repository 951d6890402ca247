//! What became of a request.

use serde::Serialize;

/// Why a request failed.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// The server did not take the connection.
    Connect,
    /// No complete answer within the timeout.
    Timeout,
    /// The connection broke before the answer began.
    Reset,
    /// The connection ended in the middle of the answer.
    Cut,
    /// The answer was not HTTP/1.1.
    Protocol,
    #[serde(rename = "status_1xx")]
    Status1xx,
    #[serde(rename = "status_2xx")]
    Status2xx,
    #[serde(rename = "status_3xx")]
    Status3xx,
    #[serde(rename = "status_4xx")]
    Status4xx,
    #[serde(rename = "status_5xx")]
    Status5xx,
    /// The body was not what was expected.
    Body,
    /// This machine had no more open files or ports: no fault of the server.
    Generator,
}

impl Failure {
    /// Every class.
    pub const ALL: [Self; 12] = [
        Self::Connect,
        Self::Timeout,
        Self::Reset,
        Self::Cut,
        Self::Protocol,
        Self::Status1xx,
        Self::Status2xx,
        Self::Status3xx,
        Self::Status4xx,
        Self::Status5xx,
        Self::Body,
        Self::Generator,
    ];

    /// Stable name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Timeout => "timeout",
            Self::Reset => "reset",
            Self::Cut => "cut",
            Self::Protocol => "protocol",
            Self::Status1xx => "status_1xx",
            Self::Status2xx => "status_2xx",
            Self::Status3xx => "status_3xx",
            Self::Status4xx => "status_4xx",
            Self::Status5xx => "status_5xx",
            Self::Body => "body",
            Self::Generator => "generator",
        }
    }

    fn of_status(status: u16) -> Self {
        match status / 100 {
            0 | 1 => Self::Status1xx,
            2 => Self::Status2xx,
            3 => Self::Status3xx,
            4 => Self::Status4xx,
            _ => Self::Status5xx,
        }
    }
}

/// Which answers are good.
#[derive(Clone, Debug)]
pub struct Expectation {
    status: Vec<(u16, u16)>,
    /// Text that the body must have.
    body: Option<Vec<u8>>,
}

impl Default for Expectation {
    fn default() -> Self {
        Self { status: vec![(200, 299)], body: None }
    }
}

impl Expectation {
    /// Statuses such as `200`, `2xx` or `200-299`, separated by commas.
    pub fn with_status(mut self, text: &str) -> Result<Self, String> {
        self.status = text
            .split(',')
            .map(|part| range(part.trim()))
            .collect::<Option<_>>()
            .ok_or_else(|| format!("{text:?} is no list of statuses, such as 200,404, 2xx or 200-299"))?;
        Ok(self)
    }

    /// Bodies must have this text.
    #[must_use]
    pub fn with_body(mut self, text: &str) -> Self {
        self.body = Some(text.as_bytes().to_vec());
        self
    }

    /// Whether bodies must be read.
    pub fn reads_bodies(&self) -> bool {
        self.body.is_some()
    }

    /// What is wrong with a status, if anything.
    pub fn judge_status(&self, status: u16) -> Result<(), Failure> {
        let expected = self.status.iter().any(|(first, last)| (*first..=*last).contains(&status));
        if expected { Ok(()) } else { Err(Failure::of_status(status)) }
    }

    /// What is wrong with a body, if anything.
    pub fn judge_body(&self, body: &[u8]) -> Result<(), Failure> {
        match &self.body {
            Some(wanted) if !contains(body, wanted) => Err(Failure::Body),
            _ => Ok(()),
        }
    }
}

fn contains(body: &[u8], wanted: &[u8]) -> bool {
    wanted.is_empty() || body.windows(wanted.len()).any(|window| window == wanted)
}

fn range(text: &str) -> Option<(u16, u16)> {
    let (first, last) = match (text.split_once('-'), text.strip_suffix("xx")) {
        (Some((first, last)), _) => (first.parse().ok()?, last.parse().ok()?),
        (None, Some(hundreds)) => {
            let hundreds: u16 = hundreds.parse().ok().filter(|hundreds| (1..=9).contains(hundreds))?;
            (hundreds * 100, hundreds * 100 + 99)
        }
        (None, None) => (text.parse().ok()?, text.parse().ok()?),
    };
    (first >= 100 && first <= last && last <= 999).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_outside_the_expected_ones_have_a_class() {
        let expectation = Expectation::default();
        assert_eq!(expectation.judge_status(204), Ok(()));
        assert_eq!(expectation.judge_status(503), Err(Failure::Status5xx));
        let expectation = expectation.with_status("404, 5xx").unwrap();
        assert_eq!(expectation.judge_status(404), Ok(()));
        assert_eq!(expectation.judge_status(599), Ok(()));
        assert_eq!(expectation.judge_status(200), Err(Failure::Status2xx));
        for text in ["", "x", "0xx", "20-10", "99", "1000"] {
            assert!(Expectation::default().with_status(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_body_must_have_the_text() {
        let expectation = Expectation::default().with_body("ok");
        assert_eq!(expectation.judge_body(b"it is ok"), Ok(()));
        assert_eq!(expectation.judge_body(b"no"), Err(Failure::Body));
    }

    #[test]
    fn names_are_those_of_json() {
        for failure in Failure::ALL {
            assert_eq!(serde_json::to_value(failure).unwrap(), failure.name());
        }
    }
}
