//! A server program that is started, waited for, killed and started again.

use std::{
    ffi::OsString,
    fmt,
    fs::{self, File},
    io::Read,
    net::TcpListener,
    ops::Range,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{Error, Folder, Watchdog, account::Account, find_program, signal};

const START_WITHIN: Duration = Duration::from_mins(1);
const STOP_WITHIN: Duration = Duration::from_secs(20);
const LOG: &str = "log";

type Ready = Box<dyn Fn(u32) -> bool + Send + Sync>;

/// One server, running or not, and the folder with its data and its log.
pub(crate) struct Daemon {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) account: Option<Account>,
    /// The signal that asks for an orderly end without waiting for clients.
    pub(crate) stop_signal: &'static str,
    /// Whether the server answers, given the id of its process.
    pub(crate) ready: Ready,
    pub(crate) running: Option<Running>,
    pub(crate) folder: Folder,
}

pub(crate) struct Running {
    child: Child,
    _watchdog: Watchdog,
}

impl Daemon {
    /// Starts the server and returns once it answers.
    ///
    /// A server that was killed a moment ago may still occupy its port or its memory, so a start that fails at once is
    /// retried for a while.
    pub(crate) fn start(&mut self) -> Result<(), Error> {
        let deadline = Instant::now() + START_WITHIN;
        let mut exits = 0;
        loop {
            let mut running = self.launch()?;
            let process = running.child.id();
            let ended = loop {
                if let Ok(Some(status)) = running.child.try_wait() {
                    break Some(status);
                }
                if (self.ready)(process) {
                    self.running = Some(running);
                    return Ok(());
                }
                if Instant::now() > deadline {
                    break None;
                }
                thread::sleep(Duration::from_millis(10));
            };
            exits += 1;
            if ended.is_none() || exits == 20 {
                let _ = running.child.kill();
                let _ = running.child.wait();
                let how = ended.map_or("did not answer in time".into(), |status| format!("ended at once ({status})"));
                return Err(Error::new(format!("{} {how}\n{}", self.program.display(), self.log())));
            }
            thread::sleep(Duration::from_millis(100 * exits.min(5)));
        }
    }

    /// Ends the server in order, keeping its data.
    pub(crate) fn stop(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        signal(running.child.id().into(), self.stop_signal);
        let deadline = Instant::now() + STOP_WITHIN;
        while Instant::now() < deadline {
            if !matches!(running.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = running.child.kill();
        let _ = running.child.wait();
    }

    /// Kills the server's process and its child processes with SIGKILL, and keeps its data.
    pub(crate) fn kill(&mut self) {
        if let Some(mut running) = self.running.take() {
            let started = children(running.child.id());
            let _ = running.child.kill();
            let _ = running.child.wait();
            // Postgres' processes are in their own groups, and continue to answer for a moment after it is killed.
            for process in started {
                signal(process, "KILL");
            }
        }
    }

    fn launch(&self) -> Result<Running, Error> {
        let log = self.folder.path().join(LOG);
        let open = || {
            let file = File::options().create(true).append(true).open(&log);
            file.map_err(Error::during(format_args!("cannot write {}", log.display())))
        };
        let mut command = command(&self.program, self.account, self.folder.path());
        command.args(&self.arguments).stdout(open()?).stderr(open()?);
        // Its own group: an interrupt from the terminal goes only to the owner, who then stops its servers in order.
        command.process_group(0);
        let mut child =
            command.spawn().map_err(Error::during(format_args!("cannot start {}", self.program.display())))?;
        let watchdog = Watchdog::start(child.id().into(), self.stop_signal, Some(self.folder.path()));
        match watchdog {
            Ok(watchdog) => Ok(Running { child, _watchdog: watchdog }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    fn log(&self) -> String {
        let mut text = Vec::new();
        let _ = File::open(self.folder.path().join(LOG)).and_then(|mut file| file.read_to_end(&mut text));
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Daemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Daemon")
            .field("program", &self.program)
            .field("folder", &self.folder)
            .field("running", &self.running.as_ref().map(|running| running.child.id()))
            .finish_non_exhaustive()
    }
}

/// A program to be run as `account` inside `folder`, with no input.
pub(crate) fn command(program: &Path, account: Option<Account>, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).stdin(Stdio::null());
    if let Some(account) = account {
        account.runs(&mut command);
    }
    command
}

pub(crate) fn program(name: &str, package: &str) -> Result<PathBuf, Error> {
    find_program(name)
        .ok_or_else(|| Error::new(format!("`{name}` is not installed; on Debian it is in the package {package}")))
}

/// Ports that a system assigns to no connection and to no listener on port 0, unless configured otherwise: an assigned port could be taken
/// before its server listens, or while the server is down for a while.
const PORTS: Range<u16> = 10_000..30_000;

/// A loopback port that was free a moment ago, drawn at random.
pub(crate) fn free_port() -> Result<u16, Error> {
    let [first, second] = random()?;
    let start = u16::from_ne_bytes([first, second]) % PORTS.end.abs_diff(PORTS.start);
    let mut ports = PORTS.cycle().skip(start.into()).take(PORTS.len());
    ports
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .ok_or_else(|| Error::new("no free port on 127.0.0.1"))
}

/// A password that other users of the machine cannot guess.
pub(crate) fn password() -> Result<String, Error> {
    Ok(format!("{:032x}", u128::from_be_bytes(random()?)))
}

fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(Error::during("cannot read /dev/urandom"))?;
    Ok(bytes)
}

/// The processes that a process started, where the system lists them.
fn children(process: u32) -> Vec<i64> {
    let list = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}
