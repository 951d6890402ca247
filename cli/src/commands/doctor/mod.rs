//! `modelway doctor`: whether a cluster can run Modelway, and the way out of it.

mod checks;
mod release;

use serde_json::json;

use crate::args::{DoctorArguments, SummaryOutput};
use crate::exit::{Failure, fail};
use crate::{output, target};

/// What one check found.
#[derive(Debug, Eq, PartialEq)]
pub struct Finding {
    /// What was looked at.
    pub check: String,
    /// What is wrong and what to do about it; none when all is well.
    pub problem: Option<String>,
}

pub async fn run(arguments: &DoctorArguments) -> anyhow::Result<()> {
    let target = target::connect(&arguments.target).await?;
    if arguments.release {
        return release::run(&target.client, arguments).await;
    }
    let findings = checks::run(&target.client, arguments.controller.as_deref()).await;
    print(&findings, arguments.output);
    let wrong = findings.iter().filter(|finding| finding.problem.is_some()).count();
    if wrong == 0 { Ok(()) } else { Err(fail(Failure::Failed, format!("{wrong} of {} checks failed", findings.len()))) }
}

fn print(findings: &[Finding], format: SummaryOutput) {
    if format == SummaryOutput::Json {
        let list: Vec<_> =
            findings.iter().map(|finding| json!({ "check": finding.check, "problem": finding.problem })).collect();
        return output::json(&json!({ "checks": list }));
    }
    for finding in findings {
        match &finding.problem {
            None => output::line(&format!("ok      {}", finding.check)),
            Some(problem) => output::line(&format!("FAILED  {}: {problem}", finding.check)),
        }
    }
}
