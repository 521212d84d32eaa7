//! Runs the handbook's tutorial from its first to its last command, in a private shell.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use gatewright_servers::{Folder, Watchdog, find_program, signal};
use toml::Table;

use crate::handbook::{pages::root, settings::merge};
use crate::harness::{Browser, Database, Scripts, binary, clean, installed};

/// The time limit of a command, and of the start of a server.
const TIMEOUT: Duration = Duration::from_mins(1);
/// The ports in the page. The test replaces them.
const PORTS: [&str; 4] = ["8080", "8081", "8082", "5173"];
const DATABASE: &str = "postgres://postgres@127.0.0.1:5432/tracker";

/// A step of the page.
enum Step {
    Write { file: String, text: String },
    Add { file: String, text: String },
    Run { command: String, shown: String },
    Stop(Option<String>),
    Browser(String),
}

/// The steps of a page: its files, its commands with their output, and the instructions in its comments.
fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut before = "";
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(directive) = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")) {
            let (word, rest) = directive.split_once(' ').unwrap_or((directive, ""));
            steps.push(match word {
                "stop" => Step::Stop((!rest.is_empty()).then(|| rest.to_owned())),
                _ => Step::Browser(rest.to_owned()),
            });
        } else if let Some(language) = line.strip_prefix("```") {
            let block: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
            if language == "console" {
                for line in block {
                    match (line.strip_prefix("$ "), steps.last_mut()) {
                        (Some(command), _) => {
                            steps.push(Step::Run { command: command.to_owned(), shown: String::new() });
                        }
                        (None, Some(Step::Run { shown, .. })) => *shown += line,
                        (None, _) => panic!("output without a command: {line}"),
                    }
                }
            } else {
                let (way, file) = before.rsplit_once(" `").expect("a block follows the name of its file");
                let (file, text) = (file.trim_end_matches("`:").to_owned(), block.join("\n") + "\n");
                let adds = way.ends_with("dd to");
                steps.push(if adds { Step::Add { file, text } } else { Step::Write { file, text } });
            }
        }
        if !line.is_empty() {
            before = line;
        }
    }
    steps
}

/// A shell in its own folder, and the servers that it started.
struct Terminal {
    child: Child,
    input: ChildStdin,
    output: Receiver<String>,
    folder: Folder,
    /// Processes in other terminals: the port and the process.
    servers: Vec<(String, i64, Watchdog)>,
    _watchdog: Watchdog,
}

impl Terminal {
    fn open() -> Self {
        let folder = Folder::create("tutorial").unwrap();
        let more = std::env::join_paths(
            [binary().parent().unwrap().to_owned(), find_program("nginx").unwrap().parent().unwrap().to_owned()]
                .into_iter()
                .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
        );
        let mut child = clean(Command::new("bash"))
            .args(["--noprofile", "--norc"])
            .env("PATH", more.unwrap())
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let watchdog = Watchdog::start(child.id().into(), "TERM", None).unwrap();
        let (lines, output) = channel();
        let printed = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || printed.lines().map_while(Result::ok).try_for_each(|line| lines.send(line)));
        let input = child.stdin.take().unwrap();
        let mut terminal = Self { child, input, output, folder, servers: Vec::new(), _watchdog: watchdog };
        terminal.run("exec 2>&1");
        terminal
    }

    /// Runs a command to its end. Returns its exit status and its output.
    fn run(&mut self, command: &str) -> (i32, String) {
        writeln!(self.input, "{command}\nprintf '\\n<<<%s\\n' $?").unwrap();
        let mut text = String::new();
        loop {
            let line = self.output.recv_timeout(TIMEOUT);
            let line = line.unwrap_or_else(|_| panic!("`{command}` does not end:\n{text}"));
            if let Some(status) = line.strip_prefix("<<<") {
                return (status.parse().unwrap(), text);
            }
            text += &line;
            text.push('\n');
        }
    }

    /// Starts a server like a reader in another terminal, and waits until it accepts connections.
    fn serve(&mut self, command: &str, port: &str) {
        let (_, printed) = self.run(&format!("{command} > serves-{port}.log 2>&1 & echo $!"));
        let process = printed.trim().parse().unwrap();
        self.servers.push((port.to_owned(), process, Watchdog::start(process, "TERM", None).unwrap()));
        let deadline = Instant::now() + TIMEOUT;
        while TcpStream::connect(format!("127.0.0.1:{port}")).is_err() {
            let (alive, log) = self.run(&format!("cat serves-{port}.log; kill -0 {process}"));
            assert!(alive == 0 && Instant::now() < deadline, "`{command}` does not serve:\n{log}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Presses Ctrl-C in the terminals of these servers. Without a port, in all of them.
    fn stop(&mut self, port: Option<&str>) {
        let (stopped, running) = self.servers.drain(..).partition(|(its, ..)| port.is_none_or(|port| port == its));
        self.servers = running;
        let stopped: Vec<(String, i64, Watchdog)> = stopped;
        assert!(!stopped.is_empty(), "nothing runs");
        for (_, process, _) in &stopped {
            let (_, printed) = self.run(&format!("kill {process}; wait {process}"));
            drop(printed);
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        for (_, process, _) in &self.servers {
            signal(*process, "TERM");
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The port of a command that does not end by itself.
fn port_of(command: &str, nginx: &str) -> Option<String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    match &words[..] {
        ["gatewright", "serve", .., address] if address.contains(':') => address.rsplit(':').next().map(str::to_owned),
        ["gatewright", "serve", ..] | ["nginx", ..] => Some(nginx.to_owned()),
        ["python3", "-m", "http.server", port, ..] => Some((*port).to_owned()),
        _ => None,
    }
}

/// Whether a text has all shown parts, in order. `…` stands for any text.
fn shows(printed: &str, shown: &str) -> bool {
    let mut rest = printed;
    shown.split('…').all(|part| match rest.find(part.trim()) {
        Some(at) => {
            rest = &rest[at + part.trim().len()..];
            true
        }
        None => false,
    })
}

/// Merges a part of a configuration into the file.
fn add(path: &Path, text: &str) {
    let mut whole: Table = fs::read_to_string(path).unwrap().parse().unwrap();
    merge(&mut whole, text.parse().unwrap());
    fs::write(path, whole.to_string()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tutorial_works_from_its_first_command_to_its_last() {
    let Some(database) = Database::postgres().await else { return };
    let Some(browser) = Browser::start(Scripts::On).await else { return };
    if !installed("nginx") {
        return;
    }
    let held = PORTS.map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let ports = held.each_ref().map(|listener| listener.local_addr().unwrap().port().to_string());
    drop(held);
    let mut page = fs::read_to_string(root().join("docs/tutorial.md")).unwrap().replace(DATABASE, &database.url());
    for (shown, taken) in PORTS.iter().zip(&ports) {
        page = page.replace(shown, taken);
    }
    // The page uses the server's default address.
    let listen = format!("export GATEWRIGHT__SERVER__LISTEN=127.0.0.1:{}", ports[0]);
    let at = format!("http://127.0.0.1:{}", ports[3]);

    let mut terminal = Terminal::open();
    assert_eq!(terminal.run(&listen).0, 0);
    let mut commands = 0;
    for step in steps(&page) {
        let folder = terminal.folder.path().join("tracker");
        match step {
            Step::Write { file, text } => fs::write(folder.join(file), text).unwrap(),
            Step::Add { file, text } => add(&folder.join(file), &text),
            Step::Stop(port) => tokio::task::block_in_place(|| terminal.stop(port.as_deref())),
            Step::Run { command, shown } => tokio::task::block_in_place(|| {
                commands += 1;
                if let Some(port) = port_of(&command, &ports[0]) {
                    return terminal.serve(&command, &port);
                }
                let (status, printed) = terminal.run(&command);
                // The page's question has the answer no: exit status 1.
                let expected = i32::from(command.starts_with("gatewright explain"));
                assert_eq!(status, expected, "{command}\n{printed}");
                assert!(shows(&printed, &shown), "{command}\nprinted: {printed}\nthe page shows: {shown}");
            }),
            Step::Browser(what) => match what.split_once(' ').unwrap_or((&what, "")) {
                ("sign", _) => {
                    browser.open(&at).await;
                    browser.fill("Email", "ben@example.com").await;
                    browser.fill("Password", "correct-horse-battery").await;
                    browser.press("Sign in").await;
                    browser.sees("Buy seeds").await;
                    browser.sees("live").await;
                    browser.fill("New task", "Water the plants").await;
                    browser.press("Add").await;
                    browser.sees("Water the plants").await;
                }
                ("reload", _) => {
                    browser.open(&at).await;
                    browser.sees("Buy seeds").await;
                    browser.sees("live").await;
                }
                (_, words) => {
                    for words in words.split(", ") {
                        browser.sees(words).await;
                    }
                }
            },
        }
    }
    assert!(commands > 30, "only {commands} commands were found");
}
