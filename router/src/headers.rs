//! Headers on their way through: what belongs to one connection stays there, what we say of ourselves nobody else says.

use std::net::IpAddr;

use http::header::{
    CONNECTION, FORWARDED, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{Request, Uri};

/// Digest of the model that answered.
pub const MODEL: HeaderName = HeaderName::from_static("x-modelway-model");
/// Name of the request.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-modelway-request-id");
/// Arm in clear, only with debug headers.
pub const ARM: HeaderName = HeaderName::from_static("x-modelway-arm");

const OWN_PREFIX: &str = "x-modelway-";
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Whether a request asks for another protocol on its connection.
pub fn wants_upgrade(headers: &HeaderMap) -> bool {
    headers.contains_key(UPGRADE) && connection_tokens(headers).any(|token| token.eq_ignore_ascii_case("upgrade"))
}

/// Takes off what is meant for one connection only (RFC 9110, section 7.6.1), and our own names.
pub fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = connection_tokens(headers).filter_map(|token| token.parse().ok()).collect();
    // Nobody may take away what frames or routes the request by calling it hop-by-hop.
    for name in named.iter().filter(|name| **name != HOST && **name != http::header::CONTENT_LENGTH) {
        headers.remove(name);
    }
    let fixed = [CONNECTION, KEEP_ALIVE, PROXY_CONNECTION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION];
    for name in fixed.iter().chain(&[TE, TRAILER, TRANSFER_ENCODING, UPGRADE]) {
        headers.remove(name);
    }
    let own: Vec<HeaderName> = headers.keys().filter(|name| name.as_str().starts_with(OWN_PREFIX)).cloned().collect();
    for name in &own {
        headers.remove(name);
    }
}

/// Says that the next hop may change the protocol to the one named.
pub fn ask_upgrade(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, protocol);
}

/// Says who the client is. Copies that the client sent are not believed.
pub fn set_forwarded(headers: &mut HeaderMap, client: IpAddr) {
    let client = client.to_canonical();
    let quoted = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\');
    let host = headers.get(HOST).cloned();
    let mut forwarded = match client {
        IpAddr::V4(address) => format!("for={address};proto=http"),
        IpAddr::V6(address) => format!("for=\"[{address}]\";proto=http"),
    };
    if let Some(host) = host.as_ref().and_then(|host| host.to_str().ok()).filter(|host| quoted(host)) {
        forwarded = format!("{forwarded};host=\"{host}\"");
    }
    let value = |text: &str| HeaderValue::from_str(text).expect("an address and a checked host are visible ASCII");
    headers.insert(FORWARDED, value(&forwarded));
    headers.insert(FORWARDED_FOR, value(&client.to_string()));
    headers.insert(FORWARDED_PROTO, HeaderValue::from_static("http"));
    match host {
        Some(host) => headers.insert(FORWARDED_HOST, host),
        None => headers.remove(FORWARDED_HOST),
    };
}

/// Path and query only, as servers expect it; the authority of an absolute target becomes the host (RFC 9112, 3.2.2).
///
/// False when the authority carries user information, which has no place there.
pub fn to_origin_form<B>(request: &mut Request<B>) -> bool {
    if let Some(authority) = request.uri().authority() {
        let Some(host) =
            (!authority.as_str().contains('@')).then(|| HeaderValue::from_str(authority.as_str()).ok()).flatten()
        else {
            return false;
        };
        request.headers_mut().insert(HOST, host);
    }
    let target = request.uri().path_and_query().cloned();
    *request.uri_mut() = target.map_or_else(|| Uri::from_static("/"), Uri::from);
    true
}

fn connection_tokens(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn takes_off_hop_by_hop_headers_and_our_own_names() {
        let mut map = headers(&[
            ("connection", "close, X-Secret, host, Content-Length"),
            ("x-secret", "1"),
            ("keep-alive", "5"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("x-modelway-arm", "v2"),
            ("host", "a"),
            ("content-length", "1"),
            ("x-user", "u"),
        ]);
        strip(&mut map);
        let mut left: Vec<_> = map.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-length", "host", "x-user"]);
    }

    #[test]
    fn says_who_the_client_is_whatever_it_claims() {
        let mut map = headers(&[("host", "a:80"), ("x-forwarded-for", "6.6.6.6"), ("forwarded", "for=6.6.6.6")]);
        set_forwarded(&mut map, "::ffff:192.0.2.1".parse().unwrap());
        assert_eq!(map[FORWARDED], r#"for=192.0.2.1;proto=http;host="a:80""#);
        assert_eq!(map[FORWARDED_FOR], "192.0.2.1");
        assert_eq!(map[FORWARDED_HOST], "a:80");
        set_forwarded(&mut map, "2001:db8::1".parse().unwrap());
        assert_eq!(map[FORWARDED], r#"for="[2001:db8::1]";proto=http;host="a:80""#);
    }

    #[test]
    fn absolute_targets_become_path_and_host() {
        let mut request = Request::get("http://b/x?y=1").header("host", "a").body(()).unwrap();
        assert!(to_origin_form(&mut request));
        assert_eq!(
            (request.uri().to_string().as_str(), &request.headers()[HOST]),
            ("/x?y=1", &HeaderValue::from_static("b"))
        );
        let mut request = Request::get("http://u:p@b/").body(()).unwrap();
        assert!(!to_origin_form(&mut request));
    }
}
