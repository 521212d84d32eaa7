use std::{ffi::OsString, fs, path::Path, process::Command};

use crate::{
    Error, Folder,
    account::Account,
    daemon::{Daemon, command, free_port, password, program},
};

const USER: &str = "gatewright";
const DATA: &str = "data";
const COPY: &str = "copy";

/// The server's settings besides its address. No code should depend on the time zone.
const SETTINGS: [&str; 6] = [
    "max_connections=300",
    "shared_buffers=64MB",
    "timezone=Asia/Kathmandu",
    "log_timezone=UTC",
    "log_min_messages=warning",
    "log_min_error_statement=panic",
];

/// Without `fsync`, a commit survives the end of every process, which the tests cause, but not a power cut, which they
/// cannot cause. `synchronous_commit` stays on: a commit is acknowledged after its log is written.
const WITHOUT_FSYNC: [&str; 2] = ["fsync=off", "full_page_writes=off"];

/// A Postgres server of one's own on a loopback port. Its user may create databases.
#[derive(Debug)]
pub struct PrivatePostgres {
    daemon: Daemon,
    port: u16,
    password: String,
}

impl PrivatePostgres {
    /// Makes an empty cluster in a temporary folder and starts it, without `fsync`. Root starts it as another user.
    pub fn start() -> Result<Self, Error> {
        Self::start_with(&WITHOUT_FSYNC)
    }

    /// The same with `fsync`: a commit survives a power cut, and costs what it costs in production.
    pub fn start_durable() -> Result<Self, Error> {
        Self::start_with(&[])
    }

    fn start_with(settings: &[&str]) -> Result<Self, Error> {
        let (initdb, postgres) = (program("initdb", "postgresql")?, program("postgres", "postgresql")?);
        let account = Account::to_switch_to()?;
        let folder = Folder::create("postgres")?;
        let data = folder.path().join(DATA);
        fs::create_dir(&data).map_err(Error::during(format_args!("cannot create {}", data.display())))?;
        if let Some(account) = account {
            folder.let_through()?;
            account.owns(&data)?;
        }
        let password = password()?;
        initialise(&initdb, account, &folder, &data, &password)?;

        let port = free_port()?;
        let mut arguments: Vec<OsString> = vec!["-D".into(), data.clone().into(), "-k".into(), data.clone().into()];
        arguments.extend(["-h", "127.0.0.1", "-p", &port.to_string()].map(OsString::from));
        for setting in SETTINGS.iter().chain(settings) {
            arguments.extend(["-c", setting].map(OsString::from));
        }
        let ready = Box::new(move |process| is_ready(&data.join("postmaster.pid"), process));
        let mut daemon =
            Daemon { program: postgres, arguments, account, stop_signal: "INT", ready, running: None, folder };
        daemon.start()?;
        Ok(Self { daemon, port, password })
    }

    /// The URL of the maintenance database, which is used to create databases.
    pub fn url(&self) -> String {
        self.database_url("postgres")
    }

    /// The URL of a database by name, whether it exists or not.
    pub fn database_url(&self, name: &str) -> String {
        format!("postgres://{USER}:{}@127.0.0.1:{}/{name}", self.password, self.port)
    }

    /// Ends the server as a crash would, with SIGKILL. Its data stays.
    pub fn kill(&mut self) {
        self.daemon.kill();
    }

    /// Ends the server in order, cutting its connections. Its data stays.
    pub fn stop(&mut self) {
        self.daemon.stop();
    }

    /// Keeps a copy of the data as it is now, for [`PrivatePostgres::lose_commits`]. Ends the server in order and starts
    /// it again.
    pub fn keep_copy(&mut self) -> Result<(), Error> {
        self.daemon.stop();
        let folder = self.daemon.folder.path();
        copy(&folder.join(DATA), &folder.join(COPY))?;
        self.daemon.start()
    }

    /// Ends the server as a crash would, and starts it without the commits since [`PrivatePostgres::keep_copy`], as a
    /// standby that had not received them.
    pub fn lose_commits(&mut self) -> Result<(), Error> {
        self.daemon.kill();
        let folder = self.daemon.folder.path();
        let data = folder.join(DATA);
        fs::remove_dir_all(&data).map_err(Error::during(format_args!("cannot remove {}", data.display())))?;
        copy(&folder.join(COPY), &data)?;
        self.daemon.start()
    }

    /// Starts a killed or stopped server again, on the same data and port.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.daemon.stop();
        self.daemon.start()
    }
}

/// Copies a folder with its owners and permissions. An earlier copy is replaced.
fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let failed = || format!("cannot copy {} to {}", from.display(), to.display());
    if to.exists() {
        fs::remove_dir_all(to).map_err(Error::during(failed()))?;
    }
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().map_err(Error::during(failed()))?;
    if status.success() { Ok(()) } else { Err(Error::new(failed())) }
}

fn initialise(
    initdb: &Path,
    account: Option<Account>,
    folder: &Folder,
    data: &Path,
    password: &str,
) -> Result<(), Error> {
    let secret = folder.write_secret("password", password)?;
    if let Some(account) = account {
        account.owns(&secret)?;
    }
    // MD5 instead of SCRAM: on the loopback of this machine it is as secure. The thousands of hashes of SCRAM are a tenth
    // of the cost of a test's connections, also if the client sends its password.
    let output = command(initdb, account, data)
        .args(["--username", USER, "--auth", "md5", "--encoding", "UTF8", "--no-locale", "--no-sync"])
        .arg("--pwfile")
        .arg(&secret)
        .arg("--pgdata")
        .arg(data)
        .output()
        .map_err(Error::during(format_args!("cannot start {}", initdb.display())))?;
    let _ = fs::remove_file(&secret);
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::new(format!(
        "{} failed ({}) in {}; if another user may not enter that folder, set TMPDIR to one that everyone may enter\n{said}",
        initdb.display(),
        output.status,
        data.display(),
    )))
}

/// The status that a server writes into its lock file for `pg_ctl`: process on line 1, state on line 8.
fn is_ready(lock_file: &Path, process: u32) -> bool {
    let text = fs::read_to_string(lock_file).unwrap_or_default();
    let line = |number: usize| text.lines().nth(number - 1).unwrap_or_default().trim();
    line(1) == process.to_string() && line(8) == "ready"
}
