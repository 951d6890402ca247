//! What `modelway doctor` looks at.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::version::Info;
use kube::Client;

use super::Finding;

/// Longest wait for one answer.
const ANSWER: Duration = Duration::from_secs(10);
/// Oldest minor version of Kubernetes that is supported.
const OLDEST: u32 = 34;
/// Longest piece of an answer that is quoted.
const QUOTE: usize = 500;

/// Runs every check, whatever the others find.
pub async fn run(client: &Client, controller: Option<&str>) -> Vec<Finding> {
    let mut findings = vec![server(client).await];
    for crd in modelway_api::crds() {
        findings.push(kind(client, &crd.spec.group, &crd.spec.versions[0].name, &crd.spec.names.plural).await);
    }
    if let Some(url) = controller {
        findings.push(ready(url).await);
    }
    findings
}

async fn server(client: &Client) -> Finding {
    let check = "API server".to_owned();
    match tokio::time::timeout(ANSWER, client.apiserver_version()).await {
        Ok(Ok(version)) => {
            Finding { check: format!("{check} {}", version.git_version), problem: version_problem(&version) }
        }
        Ok(Err(error)) => Finding { check, problem: Some(format!("it does not answer: {error}")) },
        Err(_) => Finding { check, problem: Some(format!("no answer within {ANSWER:?}")) },
    }
}

fn version_problem(version: &Info) -> Option<String> {
    let digits: String = version.minor.chars().take_while(char::is_ascii_digit).collect();
    let minor: u32 = digits.parse().ok()?;
    (version.major == "1" && minor < OLDEST).then(|| {
        format!("Kubernetes 1.{minor} is older than 1.{OLDEST}, the oldest supported one: upgrade the cluster")
    })
}

async fn kind(client: &Client, group: &str, version: &str, plural: &str) -> Finding {
    let check = format!("kind {plural}.{group}");
    let group_version = format!("{group}/{version}");
    let list = client.list_api_group_resources(&group_version);
    let problem = match tokio::time::timeout(ANSWER, list).await {
        Ok(Ok(list)) if list.resources.iter().any(|resource| resource.name == plural) => None,
        Ok(Ok(_)) => Some(missing()),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Some(missing()),
        Ok(Err(error)) => Some(format!("cannot ask for it: {error}")),
        Err(_) => Some(format!("no answer within {ANSWER:?}")),
    };
    Finding { check, problem }
}

fn missing() -> String {
    "the cluster does not serve it: install the chart with crds.enabled=true".to_owned()
}

/// Whether the controller says that it is ready.
async fn ready(url: &str) -> Finding {
    let check = format!("controller at {url}");
    let problem = match ask(&format!("{}/readyz", url.trim_end_matches('/'))).await {
        Ok((status, _)) if status.is_success() => None,
        Ok((status, text)) => {
            let quoted: String = text.chars().take(QUOTE).collect();
            Some(format!("it is not ready ({status}): {}", quoted.trim()))
        }
        Err(error) => Some(format!("it does not answer: {}", crate::exit::text(&error.into()))),
    };
    Finding { check, problem }
}

async fn ask(url: &str) -> reqwest::Result<(http::StatusCode, String)> {
    // Plain HTTP inside the cluster: no trust anchors are needed.
    let client = reqwest::Client::builder().timeout(ANSWER).no_proxy().tls_certs_only([]).build()?;
    let answer = client.get(url).send().await?;
    let status = answer.status();
    Ok((status, answer.text().await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(minor: &str) -> Info {
        Info { major: "1".to_owned(), minor: minor.to_owned(), ..Info::default() }
    }

    #[test]
    fn old_servers_are_named_and_vendors_suffixes_are_understood() {
        assert!(version_problem(&version("33")).unwrap().contains("1.33"));
        assert_eq!(version_problem(&version("34+")), None);
        assert_eq!(version_problem(&version("37")), None);
        assert_eq!(version_problem(&version("")), None);
    }
}
