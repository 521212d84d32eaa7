use metrics::{Key, Label, Recorder};

use super::{METADATA, Metrics, counter, gauge};

/// The size of a page of memory in `/proc`, on every system that Gatewright is built for.
const PAGE_BYTES: u64 = 4096;
/// The ticks of a second in `/proc` (`USER_HZ`).
const TICKS: u64 = 100;

/// What Linux knows of the process.
#[derive(Debug, Default, PartialEq, Eq)]
struct Process {
    resident_bytes: Option<u64>,
    open_files: Option<u64>,
    cpu_seconds: Option<u64>,
}

impl Process {
    fn read() -> Self {
        let text = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).ok();
        let pages = text("statm").and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok());
        let files = std::fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as u64);
        Self {
            resident_bytes: pages.map(|pages| pages * PAGE_BYTES),
            open_files: files,
            cpu_seconds: text("stat").and_then(|text| cpu_seconds(&text)),
        }
    }
}

/// The time in user and kernel mode, fields 14 and 15. The second field, a name in parentheses, may contain spaces.
fn cpu_seconds(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system) = (fields.next()?.parse::<u64>().ok()?, fields.next()?.parse::<u64>().ok()?);
    Some((user + system) / TICKS)
}

impl Metrics {
    /// Updates what is known of the process. Outside of Linux only the build is.
    pub(crate) fn observe_process(&self) {
        let recorder = &self.0.recorder;
        let build = "gatewright_build_info";
        recorder.describe_gauge(build.into(), None, "1, with the version as a label".into());
        let key = Key::from_parts(build, vec![Label::new("version", env!("CARGO_PKG_VERSION"))]);
        recorder.register_gauge(&key, &METADATA).set(1.0);
        let Process { resident_bytes, open_files, cpu_seconds } = Process::read();
        #[expect(clippy::cast_precision_loss, reason = "no process has 2^52 bytes")]
        let set = |name, about, value: Option<u64>| {
            if let Some(value) = value {
                gauge(recorder, name, about).set(value as f64);
            }
        };
        set("process_resident_memory_bytes", "Memory of the process", resident_bytes);
        set("process_open_fds", "Open files and connections of the process", open_files);
        if let Some(seconds) = cpu_seconds {
            counter(recorder, "process_cpu_seconds_total", "Processor time of the process").absolute(seconds);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_process_is_read_whatever_its_name() {
        let stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 250 0 0 20 0";
        assert_eq!(cpu_seconds(stat), Some(4));
        assert_eq!(cpu_seconds("nonsense"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn linux_knows_the_process() {
        let Process { resident_bytes, open_files, cpu_seconds } = Process::read();
        assert!(resident_bytes.unwrap() > 1_000_000 && open_files.unwrap() > 2 && cpu_seconds.is_some());
    }
}
