//! Times as people read them.

use std::time::{Duration, SystemTime};

use k8s_openapi::jiff::Timestamp;

/// Time since an RFC 3339 timestamp; `<unknown>` when there is none, `<invalid>` when it lies in the future by more
/// than a clock's jitter.
pub(super) fn since(timestamp: &str, now: SystemTime) -> String {
    let Ok(parsed) = timestamp.parse::<Timestamp>() else { return "<unknown>".to_owned() };
    match now.duration_since(SystemTime::from(parsed)) {
        Ok(elapsed) => human_duration(elapsed),
        Err(ahead) if ahead.duration() < Duration::from_secs(2) => "0s".to_owned(),
        Err(_) => "<invalid>".to_owned(),
    }
}

/// Two to three significant digits, as kubectl users know them: `59s`, `3m5s`, `12m`, `5h30m`, `2d3h`, `17d`, `2y10d`.
pub fn human_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let two = |large: u64, large_unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{large}{large_unit}"),
        _ => format!("{large}{large_unit}{small}{small_unit}"),
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two(years, "y", days % 365, "d"),
        _ => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_shrink_to_what_matters() {
        let cases = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (185, "3m5s"),
            (720, "12m"),
            (10_799, "179m"),
            (19_800, "5h30m"),
            (86_400, "24h"),
            (183_600, "2d3h"),
            (1_468_800, "17d"),
            (63_936_000, "2y10d"),
            (315_360_000, "10y"),
        ];
        for (seconds, text) in cases {
            assert_eq!(human_duration(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn odd_timestamps_have_a_word() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        assert_eq!(since("", now), "<unknown>");
        assert_eq!(since("1970-01-01T00:01:41Z", now), "0s");
        assert_eq!(since("1970-01-01T01:00:00Z", now), "<invalid>");
        assert_eq!(since("1970-01-01T00:01:30.000000Z", now), "10s");
    }
}
