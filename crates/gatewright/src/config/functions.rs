use std::path::{Path, PathBuf};
use std::time::Duration;

use super::read::Section;

/// The folder that is used if there is one and `folder` is absent.
const FOLDER: &str = "functions";

/// `[functions]`: TypeScript that runs inside the server.
#[derive(Debug, Clone)]
pub struct Functions {
    /// The folder of the files.
    pub folder: Option<PathBuf>,
    /// The memory of each call in bytes.
    pub memory_bytes: usize,
    /// How long all functions of a transaction may compute together.
    pub write_timeout: Duration,
    /// How long a function outside of a transaction may compute.
    pub timeout: Duration,
    /// How long a run of a job may take, with all that it waits for.
    pub job_timeout: Duration,
    /// The hosts that `fetch` may call.
    pub allow_hosts: Vec<String>,
    /// The environment variables that functions may read.
    pub secrets: Vec<String>,
}

impl Default for Functions {
    fn default() -> Self {
        Self {
            folder: None,
            memory_bytes: 32 << 20,
            write_timeout: Duration::from_millis(250),
            timeout: Duration::from_secs(5),
            job_timeout: Duration::from_mins(5),
            allow_hosts: Vec::new(),
            secrets: Vec::new(),
        }
    }
}

impl Functions {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            folder: section
                .derived::<String>(
                    "folder",
                    "`functions`, if it exists",
                    "Folder of [functions](functions.md): TypeScript files that run inside the server.",
                )
                .map(PathBuf::from),
            memory_bytes: section.value(
                "memory_bytes",
                default.memory_bytes,
                "The memory of each call in bytes: from 1 MiB to 256 MiB.",
            ),
            write_timeout: section.milliseconds(
                "write_timeout_ms",
                default.write_timeout,
                "How long all functions of a write may compute together. Statements and their waiting for locks are not counted.",
            ),
            timeout: section.milliseconds(
                "timeout_ms",
                default.timeout,
                "How long the function of a route may compute. Waiting for answers is not counted.",
            ),
            job_timeout: section.milliseconds(
                "job_timeout_ms",
                default.job_timeout,
                "How long a run of a [job](jobs.md) may take, with all that it waits for. It holds for every `[[job]]` too.",
            ),
            allow_hosts: section.value(
                "allow_hosts",
                default.allow_hosts,
                "The hosts that `fetch` may call: `\"api.example.com\"`, with or without a port. Private addresses only if they are \
                 named here as addresses, or as `localhost`.",
            ),
            secrets: section.value(
                "secrets",
                default.secrets,
                "The environment variables that functions may read, as `secrets.NAME`. Their values are masked in the log.",
            ),
        }
    }

    /// The folder, if there are functions.
    pub(crate) fn used_folder(&self) -> Option<&Path> {
        match &self.folder {
            Some(folder) => Some(folder),
            None => Some(Path::new(FOLDER)).filter(|folder| folder.is_dir()),
        }
    }
}
