//! Byte ranges: `Range` of downloads and `Content-Range` of upload chunks.

/// What part of a blob a download asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Everything: no range, or one we need not honour (several ranges, another unit).
    Whole,
    /// Bytes `first..=last`.
    Part { first: u64, last: u64 },
    /// A range that no byte satisfies.
    Nothing,
}

/// Reads a `Range` header against a blob of `size` bytes (RFC 9110, section 14).
pub(crate) fn wanted(header: Option<&str>, size: u64) -> Wanted {
    let Some(spec) = header.and_then(|text| text.strip_prefix("bytes=")) else { return Wanted::Whole };
    let Some((first, last)) = spec.trim().split_once('-') else { return Wanted::Whole };
    match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last && first < size => Wanted::Part { first, last: last.min(size - 1) },
        (Ok(first), Err(_)) if last.is_empty() && first < size => Wanted::Part { first, last: size - 1 },
        (Err(_), Ok(count)) if first.is_empty() && count > 0 && size > 0 => {
            Wanted::Part { first: size.saturating_sub(count), last: size - 1 }
        }
        (Ok(_), Ok(_)) => Wanted::Nothing,
        (Ok(_), Err(_)) if last.is_empty() => Wanted::Nothing,
        (Err(_), Ok(_)) if first.is_empty() => Wanted::Nothing,
        _ => Wanted::Whole,
    }
}

/// Reads a chunk's `Content-Range: first-last` (the distribution API leaves the unit out; `bytes ` is tolerated).
pub(crate) fn chunk(header: &str) -> Option<(u64, u64)> {
    let text = header.trim();
    let text = text.strip_prefix("bytes ").or_else(|| text.strip_prefix("bytes=")).unwrap_or(text);
    let text = text.split_once('/').map_or(text, |(range, _)| range);
    let (first, last) = text.split_once('-')?;
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_ranges() {
        let part = |first, last| Wanted::Part { first, last };
        let cases = [
            (None, Wanted::Whole),
            (Some("bytes=0-9"), part(0, 9)),
            (Some("bytes=5-"), part(5, 99)),
            (Some("bytes=-5"), part(95, 99)),
            (Some("bytes=-500"), part(0, 99)),
            (Some("bytes=90-500"), part(90, 99)),
            (Some("bytes=9-0"), Wanted::Nothing),
            (Some("bytes=100-"), Wanted::Nothing),
            (Some("bytes=-0"), Wanted::Nothing),
            (Some("bytes=0-1,3-4"), Wanted::Whole),
            (Some("items=0-1"), Wanted::Whole),
        ];
        for (header, expected) in cases {
            assert_eq!(wanted(header, 100), expected, "{header:?}");
        }
        assert_eq!(wanted(Some("bytes=0-"), 0), Wanted::Nothing);
    }

    #[test]
    fn reads_chunk_ranges() {
        assert_eq!(chunk("0-9"), Some((0, 9)));
        assert_eq!(chunk("bytes 5-9/*"), Some((5, 9)));
        for bad in ["", "5", "9-5", "a-b", "-5", "5-"] {
            assert_eq!(chunk(bad), None, "{bad}");
        }
    }
}
