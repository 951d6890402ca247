//! A request as the deciders see it: borrowed, whatever HTTP library the caller uses.

use std::net::IpAddr;

/// The parts of a request that routing looks at.
pub trait RequestView {
    /// Method, upper case.
    fn method(&self) -> &str;
    /// Path without query.
    fn path(&self) -> &str;
    /// Every value of a header; `name` in any case.
    fn header<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]>;
    /// Address of the client.
    fn client(&self) -> IpAddr;
}

/// Whether a second execution has the effect of one (RFC 9110, section 9.2.2).
pub fn is_idempotent(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE")
}

/// Whether a request is an inference of a protocol that we know: a prediction that may be asked twice.
pub fn is_inference_call(method: &str, path: &str) -> bool {
    const SUFFIXES: [&str; 9] = [
        "/infer",
        ":predict",
        ":classify",
        ":regress",
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/v1/embeddings",
        "/v1/rerank",
    ];
    method == "POST" && SUFFIXES.iter().any(|suffix| path.ends_with(suffix))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A request out of plain values.
    pub(crate) struct Fake {
        pub method: &'static str,
        pub path: &'static str,
        pub headers: Vec<(&'static str, &'static str)>,
    }

    impl RequestView for Fake {
        fn method(&self) -> &str {
            self.method
        }

        fn path(&self) -> &str {
            self.path
        }

        fn header<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> {
            let name = name.to_ascii_lowercase();
            self.headers.iter().filter(move |(known, _)| *known == name).map(|(_, value)| value.as_bytes())
        }

        fn client(&self) -> IpAddr {
            IpAddr::from([192, 0, 2, 7])
        }
    }

    #[test]
    fn knows_inference_calls_of_each_protocol() {
        assert!(is_inference_call("POST", "/v2/models/digits/infer"));
        assert!(is_inference_call("POST", "/v1/models/digits:predict"));
        assert!(is_inference_call("POST", "/v1/chat/completions"));
        assert!(!is_inference_call("POST", "/v2/repository/models/digits/load"));
        assert!(!is_inference_call("GET", "/v2/models/digits/infer"));
    }
}
