//! Where requests go.

use std::net::{SocketAddr, ToSocketAddrs};

use super::LoadError;

/// A parsed URL. Only `http` for now.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Host and port as in the URL: the value of the `host` header.
    pub authority: String,
    host: String,
    port: u16,
    /// Path and query, never empty. May have placeholders.
    pub path: String,
}

impl Target {
    /// Reads `http://host[:port][/path][?query]`; without a scheme it is `http`.
    pub fn parse(text: &str) -> Result<Self, LoadError> {
        let wrong = |problem: &str| LoadError::Input(format!("{text:?} is no URL of a server: {problem}"));
        let rest = match text.split_once("://") {
            Some(("http", rest)) => rest,
            Some(("https", _)) => return Err(wrong("https is not supported; send the load to the plain port")),
            Some((scheme, _)) => return Err(wrong(&format!("the scheme {scheme} is not http"))),
            None => text,
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let parsed: http::uri::Authority = authority.parse().map_err(|_| wrong("it needs a host"))?;
        if authority.contains('@') || parsed.host().is_empty() {
            return Err(wrong(if authority.contains('@') {
                "give credentials as a header"
            } else {
                "it needs a host"
            }));
        }
        if path.bytes().any(|byte| byte.is_ascii_control() || byte == b' ') {
            return Err(wrong("spaces in the path must be written %20"));
        }
        let port = match authority.rsplit_once(':') {
            Some((_, port)) if !port.ends_with(']') => port.parse().map_err(|_| wrong("the port is no number"))?,
            _ => 80,
        };
        let host = parsed.host().trim_matches(['[', ']']).to_owned();
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { authority: authority.to_owned(), host, port, path })
    }

    /// The same server under another path.
    #[must_use]
    pub fn with_path(&self, path: &str) -> Self {
        Self { path: path.to_owned(), ..self.clone() }
    }

    /// Addresses of the host, asked of the system's resolver.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, LoadError> {
        let unreachable = |problem: String| LoadError::Unreachable { target: self.to_string(), problem };
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let addresses: Vec<SocketAddr> = found.map_err(|error| unreachable(error.to_string()))?.collect();
        if addresses.is_empty() {
            return Err(unreachable("the name has no address".to_owned()));
        }
        Ok(addresses)
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "http://{}{}", self.authority, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_hosts_ports_and_paths() {
        for (text, port, shown) in [
            ("http://example.com", 80, "http://example.com/"),
            ("127.0.0.1:8080/a?b=c#d", 8080, "http://127.0.0.1:8080/a?b=c"),
            ("http://[::1]:9000?x", 9000, "http://[::1]:9000/?x"),
            ("http://[::1]/v1", 80, "http://[::1]/v1"),
        ] {
            let target = Target::parse(text).unwrap();
            assert_eq!((target.port, target.to_string().as_str()), (port, shown));
        }
        assert_eq!(Target::parse("http://[::1]:9000").unwrap().addresses().unwrap()[0].port(), 9000);
    }

    #[test]
    fn what_is_no_url_of_a_server_is_refused() {
        for text in [
            "",
            "http://",
            "https://a",
            "ftp://a",
            "http://a:b/",
            "http://a:99999",
            "http://u:p@a/",
            "http://a/x y",
            "/path",
        ] {
            assert!(Target::parse(text).is_err(), "{text}");
        }
    }
}
