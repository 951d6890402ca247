//! Which unit (user) a request belongs to.

use std::net::IpAddr;

use modelway_api::route_table::UnitKey;

use crate::request::RequestView;

/// Where a unit key comes from, checked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum UnitSource {
    /// A request header, lower case.
    Header(String),
    /// A cookie.
    Cookie(String),
    /// The client's address.
    ClientAddress,
}

impl UnitSource {
    /// None unless exactly one field is set, to something usable.
    pub fn from_document(key: &UnitKey) -> Option<Self> {
        match (&key.header, &key.cookie, key.client_address) {
            (Some(name), None, None | Some(false)) if is_token(name) => Some(Self::Header(name.to_ascii_lowercase())),
            (None, Some(name), None | Some(false)) if is_token(name) => Some(Self::Cookie(name.clone())),
            (None, None, Some(true)) => Some(Self::ClientAddress),
            _ => None,
        }
    }
}

/// The unit of one request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Unit<'a> {
    /// Named by the request.
    Keyed(&'a [u8]),
    /// Named by the client's address.
    Address(IpAddr),
    /// Nothing named it: every request is its own unit.
    Random([u8; 8]),
}

impl Unit<'_> {
    /// Calls `with` with the bytes that are hashed.
    pub fn bytes<T>(&self, with: impl FnOnce(&[u8]) -> T) -> T {
        match self {
            Self::Keyed(key) => with(key),
            Self::Address(address) => match address.to_canonical() {
                IpAddr::V4(address) => with(&address.octets()),
                IpAddr::V6(address) => with(&address.octets()),
            },
            Self::Random(number) => with(number),
        }
    }

    /// Whether the same user would get the same unit again.
    pub fn is_keyed(&self) -> bool {
        !matches!(self, Self::Random(_))
    }
}

/// The first source that names a unit wins; empty values name nothing. `random` is a fresh random number.
pub fn unit<'a, R: RequestView>(request: &'a R, sources: &[UnitSource], random: u64) -> Unit<'a> {
    for source in sources {
        let found = match source {
            UnitSource::Header(name) => request.header(name).find(|value| !value.is_empty()).map(Unit::Keyed),
            UnitSource::Cookie(name) => cookie(request, name).map(Unit::Keyed),
            UnitSource::ClientAddress => Some(Unit::Address(request.client())),
        };
        if let Some(unit) = found {
            return unit;
        }
    }
    Unit::Random(random.to_le_bytes())
}

fn cookie<'a, R: RequestView>(request: &'a R, name: &str) -> Option<&'a [u8]> {
    request.header("cookie").flat_map(|line| line.split(|byte| *byte == b';')).find_map(|pair| {
        let pair = pair.trim_ascii();
        let value = pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        (!value.is_empty()).then_some(value)
    })
}

/// Whether a name is a token of RFC 9110, as header and cookie names must be.
pub fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(is_token_byte)
}

/// Whether a byte may stand in a token.
pub(crate) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::tests::Fake;

    fn sources() -> Vec<UnitSource> {
        vec![UnitSource::Header("x-user".into()), UnitSource::Cookie("sid".into()), UnitSource::ClientAddress]
    }

    fn request(headers: &[(&'static str, &'static str)]) -> Fake {
        Fake { method: "GET", path: "/", headers: headers.to_vec() }
    }

    #[test]
    fn first_source_with_a_value_wins() {
        let both = request(&[("x-user", "u1"), ("cookie", "sid=s1")]);
        assert_eq!(unit(&both, &sources(), 0), Unit::Keyed(b"u1"));
        let empty_header = request(&[("x-user", ""), ("cookie", "a=b; sid=s1; sid=s2")]);
        assert_eq!(unit(&empty_header, &sources(), 0), Unit::Keyed(b"s1"));
    }

    #[test]
    fn cookie_names_match_whole() {
        let request = request(&[("cookie", "xsid=1; sid2=2; sid=")]);
        assert_eq!(unit(&request, &sources()[1..2], 5), Unit::Random(5_u64.to_le_bytes()));
    }

    #[test]
    fn falls_back_to_the_address_then_to_a_random_unit() {
        let plain = request(&[]);
        assert_eq!(unit(&plain, &sources(), 5), Unit::Address(IpAddr::from([192, 0, 2, 7])));
        assert!(!unit(&plain, &sources()[..2], 5).is_keyed());
        let mapped: IpAddr = "::ffff:192.0.2.7".parse().expect("an address");
        assert_eq!(Unit::Address(mapped).bytes(<[u8]>::to_vec), vec![192, 0, 2, 7]);
    }

    #[test]
    fn a_document_key_needs_exactly_one_field() {
        let key = UnitKey { header: Some("X-User".into()), ..UnitKey::default() };
        assert_eq!(UnitSource::from_document(&key), Some(UnitSource::Header("x-user".into())));
        assert_eq!(UnitSource::from_document(&UnitKey::default()), None);
        assert_eq!(UnitSource::from_document(&UnitKey { cookie: Some("a".into()), ..key.clone() }), None);
        assert_eq!(UnitSource::from_document(&UnitKey { header: Some("a b".into()), ..UnitKey::default() }), None);
    }
}
