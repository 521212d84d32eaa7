//! A running server, its folder and its output.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use gatewright_servers::{Folder, Watchdog, signal};

use super::{Client, Database, binary, binary::clean};

const START_WITHIN: Duration = Duration::from_mins(1);

/// How a server is started.
pub(crate) struct Launch {
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    configuration: Option<String>,
    files: Option<u32>,
    /// The configuration names address and database.
    is_alone: bool,
    /// The whole command, in place of the binary with its arguments.
    command: Option<Vec<String>>,
}

impl Launch {
    /// `serve --dev`, as in the readme: in an empty folder, with no configuration.
    pub(crate) fn dev() -> Self {
        Self {
            arguments: vec!["--dev".to_owned()],
            environment: Vec::new(),
            configuration: None,
            files: None,
            is_alone: false,
            command: None,
        }
    }

    /// `serve --dev` with this `gatewright.toml`.
    pub(crate) fn configured(text: &str) -> Self {
        Self { configuration: Some(text.to_owned()), ..Self::dev() }
    }

    /// `serve` as in production, with a secret and this configuration.
    pub(crate) fn production(text: &str) -> Self {
        let secret = "a secret for tests alone, long enough";
        let configuration = Some(format!("[auth]\njwt_secret = \"{secret}\"\n{text}"));
        Self { arguments: Vec::new(), configuration, ..Self::dev() }
    }

    /// `serve` as in production, with this configuration alone: it names the address.
    pub(crate) fn alone(text: &str) -> Self {
        Self { arguments: Vec::new(), configuration: Some(text.to_owned()), is_alone: true, ..Self::dev() }
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A command that starts the server with a configuration of its own.
    pub(crate) fn command(words: Vec<String>) -> Self {
        Self { command: Some(words), ..Self::dev() }
    }

    /// Limits the number of open files.
    pub(crate) fn files(self, most: u32) -> Self {
        Self { files: Some(most), ..self }
    }

    /// Starts the server in a new folder and waits until it listens.
    pub(crate) async fn start(self, database: &Database) -> Server {
        let url = database.url();
        tokio::task::spawn_blocking(move || Server::start(self, url)).await.unwrap()
    }
}

/// A server in its own folder. Dropping it kills it.
pub(crate) struct Server {
    launch: Launch,
    database: String,
    address: String,
    process: Option<Process>,
    folder: Folder,
}

struct Process {
    child: Child,
    printed: Arc<Printed>,
    _watchdog: Watchdog,
}

/// The standard output so far.
#[derive(Default)]
struct Printed {
    lines: Mutex<Vec<String>>,
    grown: Condvar,
    ended: AtomicBool,
}

impl Server {
    fn start(launch: Launch, database: String) -> Self {
        let folder = Folder::create("blackbox").unwrap();
        if let Some(text) = &launch.configuration {
            fs::write(folder.path().join("gatewright.toml"), text).unwrap();
        }
        let mut server = Self { launch, database, address: "127.0.0.1:0".to_owned(), process: None, folder };
        server.run();
        server
    }

    /// Restarts a killed or stopped server, with the same data and the same address.
    pub(crate) fn restart(&mut self) {
        assert!(self.process.is_none(), "still running");
        tokio::task::block_in_place(|| self.run());
    }

    fn run(&mut self) {
        let log = File::options().create(true).append(true).open(self.folder.path().join("stderr")).unwrap();
        let mut child = clean(self.command())
            // The cheapest hashes: the tests need no strong ones.
            .env("GATEWRIGHT__AUTH__BCRYPT_COST", "4")
            .envs(self.launch.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let watchdog = Watchdog::start(child.id().into(), "TERM", None).unwrap();
        let printed = Arc::new(Printed::default());
        let output = BufReader::new(child.stdout.take().unwrap());
        thread::spawn({
            let printed = Arc::clone(&printed);
            move || {
                for line in output.lines().map_while(Result::ok) {
                    printed.lines.lock().unwrap().push(line);
                    printed.grown.notify_all();
                }
                printed.ended.store(true, Ordering::SeqCst);
                printed.grown.notify_all();
            }
        });
        self.process = Some(Process { child, printed, _watchdog: watchdog });
        let first = self.wait_for_output(|lines| {
            let place = |line: &String| {
                Some(line.strip_prefix("listening on http")?.trim_start_matches('s').get(3..)?.to_owned())
            };
            lines.iter().find_map(place)
        });
        self.address = first;
    }

    fn command(&self) -> Command {
        if let Some([program, words @ ..]) = self.launch.command.as_deref() {
            let mut command = Command::new(program);
            command.args(words);
            return command;
        }
        let mut command = match self.launch.files {
            None => Command::new(binary()),
            Some(most) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("ulimit -n {most} && exec \"$0\" \"$@\"")]).arg(binary());
                shell
            }
        };
        command.arg("serve").args(&self.launch.arguments);
        if !self.launch.is_alone {
            command.args(["--listen", &self.address, "--database", &self.database]);
        }
        command
    }

    /// Waits until the output contains something, and returns it.
    pub(crate) fn wait_for_output<T>(&self, mut find: impl FnMut(&[String]) -> Option<T>) -> T {
        let printed = &self.process.as_ref().expect("not running").printed;
        let deadline = Instant::now() + START_WITHIN;
        let mut lines = printed.lines.lock().unwrap();
        loop {
            if let Some(found) = find(&lines) {
                return found;
            }
            let ended = printed.ended.load(Ordering::SeqCst);
            assert!(!ended && Instant::now() < deadline, "printed: {lines:#?}\nlog: {}", self.log());
            lines = printed.grown.wait_timeout(lines, Duration::from_millis(200)).unwrap().0;
        }
    }

    /// `127.0.0.1:PORT`
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A client without cookies.
    pub(crate) fn client(&self) -> Client {
        Client::new(&self.address)
    }

    /// Everything on standard error so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("stderr")).unwrap_or_default()
    }

    /// The memory of the process. Linux only.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let process = self.process.as_ref().expect("not running").child.id();
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
        kilobytes.unwrap().parse::<u64>().unwrap() * 1024
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        let mut process = self.process.take().expect("not running");
        process.child.kill().unwrap();
        process.child.wait().unwrap();
    }

    /// Sends it a signal, such as `HUP`.
    pub(crate) fn signal(&self, name: &str) {
        assert!(signal(self.process.as_ref().expect("not running").child.id().into(), name));
    }

    /// Stops it with SIGTERM and returns its exit status.
    pub(crate) async fn stop(&mut self) -> Option<i32> {
        let mut process = self.process.take().expect("not running");
        tokio::task::spawn_blocking(move || {
            assert!(signal(process.child.id().into(), "TERM"));
            let deadline = Instant::now() + START_WITHIN;
            while Instant::now() < deadline {
                if let Some(status) = process.child.try_wait().unwrap() {
                    return status.code();
                }
                thread::sleep(Duration::from_millis(10));
            }
            process.child.kill().unwrap();
            process.child.wait().unwrap();
            panic!("did not end on SIGTERM");
        })
        .await
        .unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
        if thread::panicking() {
            eprintln!("--- the server's log ---\n{}", self.log());
        }
    }
}
