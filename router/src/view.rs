//! A request of the HTTP library as the deciders see it.

use std::net::IpAddr;

use http::{HeaderMap, HeaderValue, Method, Uri};
use modelway_route::RequestView;

/// Head and client of a request.
pub struct View<'a> {
    /// The method.
    pub method: &'a Method,
    /// The target.
    pub uri: &'a Uri,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The client.
    pub client: IpAddr,
}

impl RequestView for View<'_> {
    fn method(&self) -> &str {
        self.method.as_str()
    }

    fn path(&self) -> &str {
        self.uri.path()
    }

    fn header<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.headers.get_all(name).iter().map(HeaderValue::as_bytes)
    }

    fn client(&self) -> IpAddr {
        self.client
    }
}
