//! What every exporter says about its process, read from `/proc` at each scrape; where there is none, only the start
//! time is said.

use std::{fmt, fs};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};

use super::unix_seconds;
use crate::domain::time::Timestamp;

/// Linux counts a process's time in hundredths of a second, whatever the kernel's own clock does.
const TICKS_PER_SECOND: f64 = 100.0;
const BYTES_PER_KIBIBYTE: u64 = 1_024;

pub(super) fn register(registry: &mut Registry, started_at: Timestamp) {
    registry.register_collector(Box::new(Process { started_at }));
}

#[derive(Debug)]
struct Process {
    started_at: Timestamp,
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let started = ConstGauge::new(unix_seconds(Some(self.started_at)));
        let (name, help) = ("process_start_time_seconds", "When the process started");
        started.encode(encoder.encode_descriptor(name, help, None, started.metric_type())?)?;
        if let Some(bytes) = read("/proc/self/status").and_then(|status| resident_bytes(&status)) {
            let memory = ConstGauge::new(bytes);
            let (name, help) = ("process_resident_memory_bytes", "Memory in use");
            memory.encode(encoder.encode_descriptor(name, help, None, memory.metric_type())?)?;
        }
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

fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * BYTES_PER_KIBIBYTE)
}

/// User and system time. The second field is the program's name in parentheses and may hold anything, so counting
/// starts after the last one.
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
    fn the_files_of_proc_are_read_by_their_format() {
        let status = "Name:\tx\nVmPeak:\t   99 kB\nVmRSS:\t    2048 kB\nThreads:\t1\n";
        assert_eq!(resident_bytes(status), Some(2_097_152));
        assert_eq!(resident_bytes("Name:\tx\n"), None);

        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 1 0 5 1 1";
        assert_eq!(cpu_seconds(stat), Some(2.0));
        assert_eq!(cpu_seconds("7 (a) S 1"), None);
    }
}
