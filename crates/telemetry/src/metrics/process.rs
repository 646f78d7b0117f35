//! Standard process metrics, read from `/proc` at each scrape. Without `/proc`, only the start time is reported.

use std::{fmt, fs};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};

use super::unix_seconds;
use recapd_core::domain::time::Timestamp;

/// Linux reports a process's time in hundredths of a second, whatever the kernel's own clock.
const TICKS_PER_SECOND: f64 = 100.0;
const BYTES_PER_KIBIBYTE: f64 = 1_024.0;

pub(super) fn register(registry: &mut Registry, started_at: Timestamp) {
    registry.register_collector(Box::new(Process { started_at }));
}

#[derive(Debug)]
struct Process {
    started_at: Timestamp,
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut gauge = |name: &str, help: &str, value: Option<f64>| {
            let Some(value) = value else { return Ok(()) };
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
        };
        let start_seconds = Some(unix_seconds(Some(self.started_at)));
        gauge("process_start_time_seconds", "When the process started", start_seconds)?;
        let status = read("/proc/self/status").unwrap_or_default();
        gauge("process_resident_memory_bytes", "Memory in use", resident_bytes(&status))?;
        gauge("process_open_fds", "Files and connections that are open", open_files())?;
        let limits = read("/proc/self/limits").unwrap_or_default();
        gauge("process_max_fds", "The most files and connections that may be open", files_max(&limits))?;
        gauge("process_threads", "Threads", number(&status, "Threads:"))?;
        if let Some(seconds) = read("/proc/self/stat").and_then(|stat| cpu_seconds(&stat)) {
            let cpu = ConstCounter::new(seconds);
            let (name, help) = ("process_cpu_seconds", "Time spent computing");
            cpu.encode(encoder.encode_descriptor(name, help, None, cpu.metric_type())?)?;
        }
        Ok(())
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn number(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn resident_bytes(status: &str) -> Option<f64> {
    Some(number(status, "VmRSS:")? * BYTES_PER_KIBIBYTE)
}

fn files_max(limits: &str) -> Option<f64> {
    number(limits, "Max open files")
}

/// Returns the number of open files. Leaves out the folder that is read to count them.
fn open_files() -> Option<f64> {
    let files = fs::read_dir("/proc/self/fd").ok()?.count();
    Some(f64::from(u32::try_from(files.saturating_sub(1)).ok()?))
}

/// Returns user and system time. The program's name, in parentheses, may contain any character, so fields are counted after the
/// last parenthesis.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
    let (user, system) = (times.next()?.ok()?, times.next()?.ok()?);
    Some((user + system) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_the_files_in_proc() {
        let status = "Name:\tx\nVmPeak:\t   99 kB\nVmRSS:\t    2048 kB\nThreads:\t1\n";
        assert_eq!(resident_bytes(status), Some(2_097_152.0));
        assert_eq!(number(status, "Threads:"), Some(1.0));
        let limits = "Max processes   62   62   processes\nMax open files            1024                 4096   files\n";
        assert_eq!(files_max(limits), Some(1_024.0));
        assert_eq!(resident_bytes("Name:\tx\n"), None);

        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 1 0 5 1 1";
        assert_eq!(cpu_seconds(stat), Some(2.0));
        assert_eq!(cpu_seconds("7 (a) S 1"), None);
    }
}
