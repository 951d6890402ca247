//! A request of the HTTP library as the deciders see it.

use std::net::IpAddr;

use http::HeaderValue;
use http::request::Parts;
use modelway_route::RequestView;

/// Head and client of a request.
pub struct View<'a> {
    /// The head.
    pub parts: &'a Parts,
    /// The client.
    pub client: IpAddr,
}

impl RequestView for View<'_> {
    fn method(&self) -> &str {
        self.parts.method.as_str()
    }

    fn path(&self) -> &str {
        self.parts.uri.path()
    }

    fn header<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.parts.headers.get_all(name).iter().map(HeaderValue::as_bytes)
    }

    fn client(&self) -> IpAddr {
        self.client
    }
}
