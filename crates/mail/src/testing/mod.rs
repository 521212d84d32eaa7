//! A real SMTP server for tests: aiosmtpd, a program that shares no code with the tested crate.
//!
//! [`SmtpServer::start`] runs it on a free loopback port; [`SmtpServer::mails`] waits for received mails, as an
//! independent parser reads them. It ends when it is dropped, or with the program that started it.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use gatewright_servers::{Folder, find_program};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::watch;

/// The environment variable with the path of the program `aiosmtpd`.
pub const AIOSMTPD: &str = "GATEWRIGHT_TEST_AIOSMTPD";
/// The environment variable that makes a missing program a failure.
pub const REQUIRED: &str = "GATEWRIGHT_TEST_REQUIRED";

const SCRIPT: &str = include_str!("smtp_server.py");
const TIMEOUT: Duration = Duration::from_secs(30);

/// How the server is set up. The default takes any mail, without TLS, on a free port.
#[derive(Debug, Clone, Default)]
pub struct SmtpOptions {
    /// The port, to start again on the port of an earlier server.
    pub port: Option<u16>,
    /// The user name and password without which it takes nothing.
    pub credentials: Option<(String, String)>,
    /// How it encrypts.
    pub tls: Option<SmtpTls>,
    /// Whether it refuses addresses beyond ASCII (has no `SMTPUTF8`).
    pub ascii_only: bool,
}

/// The server's TLS. With STARTTLS it takes nothing before.
#[derive(Debug, Clone)]
pub struct SmtpTls {
    /// Its certificate, in PEM.
    pub certificate: String,
    /// The certificate's key, in PEM.
    pub key: String,
    /// TLS from the first byte, instead of STARTTLS.
    pub wrapped: bool,
}

/// A mail that reached the end of DATA, whatever the server answered then.
#[derive(Debug, Clone, Deserialize)]
pub struct ReceivedMail {
    /// MAIL FROM.
    pub sender: String,
    /// RCPT TO.
    pub recipients: Vec<String>,
    /// Whether `SMTPUTF8` was requested.
    pub utf8: bool,
    /// Whether the connection was encrypted.
    pub encrypted: bool,
    /// The user name of the login.
    pub login: Option<String>,
    /// The name in EHLO.
    pub hello: String,
    /// The decoded headers of the message, in their order.
    pub headers: Vec<(String, String)>,
    /// The content type of the message.
    pub kind: String,
    /// The decoded text part.
    pub text: Option<String>,
    /// The decoded HTML part.
    pub html: Option<String>,
    /// The message as it was transferred.
    pub raw: String,
    /// The server's answer.
    pub answer: String,
}

impl ReceivedMail {
    /// The only header with this name.
    ///
    /// # Panics
    /// If there is none, or more than one.
    pub fn header(&self, name: &str) -> &str {
        let mut found = self.headers.iter().filter(|(header, _)| header.eq_ignore_ascii_case(name));
        match (found.next(), found.next()) {
            (Some((_, value)), None) => value,
            _ => panic!("not one header {name}: {:?}", self.headers),
        }
    }
}

/// The events at the server.
#[derive(Debug, Default)]
struct Record {
    mails: Vec<ReceivedMail>,
    logins: Vec<(String, bool)>,
}

#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Event {
    Ready { port: u16 },
    Instructed,
    Login { login: String, success: bool },
    Mail(Box<ReceivedMail>),
}

/// A running SMTP server.
#[derive(Debug)]
pub struct SmtpServer {
    port: u16,
    child: Child,
    instructions: ChildStdin,
    /// A word for every instruction that was followed.
    followed: mpsc::Receiver<()>,
    record: watch::Receiver<Record>,
    _folder: Folder,
}

impl SmtpServer {
    /// Starts a server. Nothing where aiosmtpd is not installed and not [`REQUIRED`].
    ///
    /// # Panics
    /// When it does not start, or is required and missing.
    pub fn start(options: SmtpOptions) -> Option<Self> {
        let Some(program) = std::env::var_os(AIOSMTPD).map(PathBuf::from).or_else(|| find_program("aiosmtpd")) else {
            assert!(std::env::var_os(REQUIRED).is_none(), "{AIOSMTPD} is not set; run `cargo xtask test`");
            return None;
        };
        let folder = Folder::create("smtp").expect("a temporary folder");
        let mut child = interpreter_of(&program)
            .args(["-c", SCRIPT, &configuration(options, folder.path())])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the interpreter of aiosmtpd starts");
        let instructions = child.stdin.take().expect("a pipe was requested");
        let output = BufReader::new(child.stdout.take().expect("a pipe was requested"));
        let (port_is, port) = mpsc::channel();
        let (follow, followed) = mpsc::channel();
        let (sender, record) = watch::channel(Record::default());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                match serde_json::from_str(&line).expect("an event") {
                    // The receiver may be gone.
                    Event::Ready { port } => drop(port_is.send(port)),
                    Event::Instructed => drop(follow.send(())),
                    Event::Login { login, success } => sender.send_modify(|it| it.logins.push((login, success))),
                    Event::Mail(mail) => sender.send_modify(|it| it.mails.push(*mail)),
                }
            }
        });
        let port = port.recv_timeout(TIMEOUT).expect("aiosmtpd starts");
        Some(Self { port, child, instructions, followed, record, _folder: folder })
    }

    /// Where it listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Answers the next command of this kind (`MAIL`, `RCPT`, or `DATA` for the end of it) in this way. A second call
    /// is for the command after that.
    pub fn answer(&mut self, command: &str, answer: &str) {
        self.instruct(&json!({"to": command, "answer": answer}));
    }

    /// From now on takes messages without answering, until [`release`](Self::release).
    pub fn hold(&mut self) {
        self.instruct(&json!({"gate": "closed"}));
    }

    /// Continues to answer, first the delayed commands.
    pub fn release(&mut self) {
        self.instruct(&json!({"gate": "open"}));
    }

    /// The mails so far, once there are at least `count`.
    ///
    /// # Panics
    /// When they do not come within half a minute.
    pub async fn mails(&mut self, count: usize) -> Vec<ReceivedMail> {
        self.catch_up();
        let mut record = self.record.clone();
        let arrived = tokio::time::timeout(TIMEOUT, record.wait_for(|record| record.mails.len() >= count)).await;
        arrived.expect("the mails come in time").expect("the server lives").mails.clone()
    }

    /// Every login attempt: the user name, and whether it succeeded.
    pub fn logins(&mut self) -> Vec<(String, bool)> {
        self.catch_up();
        self.record.borrow().logins.clone()
    }

    /// Returns once all that has happened at the server is recorded here.
    fn catch_up(&mut self) {
        self.instruct(&json!({}));
    }

    fn instruct(&mut self, instruction: &serde_json::Value) {
        writeln!(self.instructions, "{instruction}").expect("the server lives");
        self.followed.recv_timeout(TIMEOUT).expect("the server follows");
    }
}

impl Drop for SmtpServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The Python that has the library: the one that the installed program names in its first line.
fn interpreter_of(program: &Path) -> Command {
    let text = fs::read_to_string(program).expect("aiosmtpd is a script");
    let line = text.lines().next().and_then(|line| line.strip_prefix("#!")).expect("aiosmtpd names its interpreter");
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().expect("aiosmtpd names its interpreter"));
    command.args(words);
    command
}

fn configuration(options: SmtpOptions, folder: &Path) -> String {
    let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
    let tls = options.tls.map(|tls| {
        fs::write(&certificate, tls.certificate).expect("the temporary folder takes files");
        fs::write(&key, tls.key).expect("the temporary folder takes files");
        if tls.wrapped { "wrapped" } else { "starttls" }
    });
    let configuration = json!({
        "port": options.port.unwrap_or(0),
        "credentials": options.credentials.map(|(user, password)| [user, password]),
        "tls": tls,
        "certificate": certificate,
        "key": key,
        "utf8": !options.ascii_only,
    });
    configuration.to_string()
}
