//! String and number formats the API server checks; unknown formats are ignored, as Kubernetes does.

use std::net::{Ipv4Addr, Ipv6Addr};

use base64::Engine as _;
use k8s_openapi::jiff::civil::Date;
use serde_json::Value;

/// A format that is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Int32,
    Int64,
    Float,
    Double,
    Byte,
    Date,
    DateTime,
    Duration,
    Ipv4,
    Ipv6,
    Cidr,
    Hostname,
    Uri,
    Uuid,
    Email,
    Mac,
}

impl Format {
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "float" => Self::Float,
            "double" => Self::Double,
            "byte" => Self::Byte,
            "date" => Self::Date,
            "date-time" | "datetime" => Self::DateTime,
            "duration" => Self::Duration,
            "ipv4" => Self::Ipv4,
            "ipv6" => Self::Ipv6,
            "cidr" => Self::Cidr,
            "hostname" => Self::Hostname,
            "uri" => Self::Uri,
            "uuid" => Self::Uuid,
            "email" => Self::Email,
            "mac" => Self::Mac,
            _ => return None,
        })
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Float => "float",
            Self::Double => "double",
            Self::Byte => "byte",
            Self::Date => "date",
            Self::DateTime => "date-time",
            Self::Duration => "duration",
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::Cidr => "cidr",
            Self::Hostname => "hostname",
            Self::Uri => "uri",
            Self::Uuid => "uuid",
            Self::Email => "email",
            Self::Mac => "mac",
        }
    }

    /// Whether the value has this format; formats of numbers are ranges, and checked as such.
    pub(crate) fn accepts(self, value: &Value) -> bool {
        value.as_str().is_none_or(|text| self.accepts_text(text))
    }

    fn accepts_text(self, text: &str) -> bool {
        match self {
            Self::Int32 | Self::Int64 | Self::Float | Self::Double => true,
            Self::Byte => base64::engine::general_purpose::STANDARD.decode(text).is_ok(),
            Self::Date => text.len() == 10 && text.parse::<Date>().is_ok(),
            Self::DateTime => is_date_time(text),
            Self::Duration => is_duration(text),
            Self::Ipv4 => text.parse::<Ipv4Addr>().is_ok(),
            Self::Ipv6 => text.parse::<Ipv6Addr>().is_ok(),
            Self::Cidr => is_cidr(text),
            Self::Hostname => is_hostname(text),
            Self::Uri => is_uri(text),
            Self::Uuid => is_uuid(text),
            Self::Email => text.split_once('@').is_some_and(|(user, host)| !user.is_empty() && is_hostname(host)),
            Self::Mac => is_mac(text),
        }
    }
}

fn is_date_time(text: &str) -> bool {
    text.as_bytes().get(10).is_some_and(|mark| matches!(mark, b'T' | b't'))
        && text.parse::<k8s_openapi::jiff::Timestamp>().is_ok()
}

/// Go's `time.ParseDuration`: signed decimals with units, such as `1h30m` or `-0.5s`.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let number = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        let (digits, tail) = rest.split_at(number);
        if !digits.bytes().any(|byte| byte.is_ascii_digit()) || digits.matches('.').count() > 1 {
            return false;
        }
        let unit = tail.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(tail.len());
        if !matches!(&tail[..unit], "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h") {
            return false;
        }
        rest = &tail[unit..];
    }
    true
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let Ok(bits) = bits.parse::<u8>() else { return false };
    (address.parse::<Ipv4Addr>().is_ok() && bits <= 32) || (address.parse::<Ipv6Addr>().is_ok() && bits <= 128)
}

fn is_hostname(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    text.len() <= 255 && text.strip_suffix('.').unwrap_or(text).split('.').all(label)
}

/// Go's `url.ParseRequestURI`: an absolute URI or an absolute path.
fn is_uri(text: &str) -> bool {
    if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return false;
    }
    if text.starts_with('/') {
        return true;
    }
    text.split_once(':').is_some_and(|(scheme, rest)| {
        !rest.is_empty()
            && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    })
}

fn is_uuid(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_hexdigit).count();
    let dashes = text.bytes().filter(|byte| *byte == b'-').count();
    digits == 32 && digits + dashes == text.len() && matches!(dashes, 0 | 4)
}

fn is_mac(text: &str) -> bool {
    let parts: Vec<&str> = text.split([':', '-']).collect();
    parts.len() == 6 && parts.iter().all(|part| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn formats_accept_what_go_accepts() {
        for (word, text, good) in [
            ("date-time", "2024-01-02T03:04:05Z", true),
            ("date-time", "2024-01-02T03:04:05.123456+01:00", true),
            ("date-time", "2024-01-02", false),
            ("date-time", "yesterday", false),
            ("date", "2024-02-30", false),
            ("duration", "1h30m", true),
            ("duration", "-0.5s", true),
            ("duration", "90", false),
            ("duration", "s", false),
            ("duration", "µs", false),
            ("byte", "aGk=", true),
            ("byte", "not base64!", false),
            ("ipv4", "127.0.0.1", true),
            ("ipv4", "127.0.0.256", false),
            ("cidr", "10.0.0.0/8", true),
            ("cidr", "10.0.0.0/33", false),
            ("uri", "https://example.org/x", true),
            ("uri", "no scheme", false),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", true),
            ("uuid", "123e4567", false),
            ("hostname", "a.example.org", true),
            ("hostname", "-a", false),
        ] {
            let format = Format::parse(word).unwrap();
            assert_eq!(format.accepts(&json!(text)), good, "{word} {text}");
        }
    }
}
