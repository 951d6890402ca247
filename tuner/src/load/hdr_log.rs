//! Export as an `HdrHistogram` interval log, which the tools of that project read and plot. Values are nanoseconds.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use super::LoadError;
use super::constraint::Metric;
use super::statistics::{Measured, Times};

/// The log's largest values are shown in milliseconds.
const DIVISOR: f64 = 1e6;

/// Writes one histogram for each metric that has values, under its name as the tag.
pub fn write(path: &Path, measured: &Measured, started: SystemTime, length: Duration) -> Result<(), LoadError> {
    let bytes = encode(measured, started, length)?;
    let written = std::fs::File::create(path).and_then(|mut file| file.write_all(&bytes));
    written.map_err(|source| LoadError::file(path, &source))
}

fn encode(measured: &Measured, started: SystemTime, length: Duration) -> Result<Vec<u8>, LoadError> {
    let (mut bytes, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
    let failed = |problem: String| LoadError::Input(format!("the histograms cannot be written: {problem}"));
    let mut builder = IntervalLogWriterBuilder::new();
    builder
        .with_start_time(started)
        .with_max_value_divisor(DIVISOR)
        .add_comment("nanoseconds; written by modelway load");
    let mut log = builder.begin_log_with(&mut bytes, &mut serializer).map_err(|error| failed(error.to_string()))?;
    let metrics = Metric::ALL.iter().map(|metric| (metric.name(), measured.metric(*metric)));
    let others = [("service", &measured.service), ("delay", &measured.delay)];
    for (name, times) in metrics.chain(others).filter(|(_, times): &(&str, &Times)| times.count() > 0) {
        log.write_histogram(times.inner(), Duration::ZERO, length, Tag::new(name))
            .map_err(|error| failed(format!("{error:?}")))?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;

    #[test]
    fn a_log_reads_back_as_what_was_counted() {
        let mut measured = Measured::new(0);
        (1..=1000).for_each(|number| measured.metrics[0].record(number * 1_000_000));
        let log = encode(&measured, SystemTime::UNIX_EPOCH, Duration::from_secs(10)).unwrap();
        let intervals: Vec<_> = IntervalLogIterator::new(&log)
            .filter_map(|entry| match entry.unwrap() {
                LogEntry::Interval(interval) => Some(interval),
                _ => None,
            })
            .collect();
        assert_eq!(intervals.len(), 1);
        assert_eq!(intervals[0].tag().map(|tag| tag.as_str().to_owned()), Some("latency".to_owned()));
        let bytes = base64_of_the_log(intervals[0].encoded_histogram());
        let read: hdrhistogram::Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
        assert_eq!((read.len(), read.value_at_quantile(0.5)), (1000, measured.metrics[0].quantile(0.5)));
    }

    fn base64_of_the_log(text: &str) -> Vec<u8> {
        base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text).unwrap()
    }
}
