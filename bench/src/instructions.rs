//! Counts the instructions of a request with valgrind, of this server and of the program written by hand. The number does
//! not depend on the machine's load, so a pull request can be checked against it. The accepted counts are in
//! `instructions.json`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

use crate::child::{Server, binary};
use crate::credentials::{Credentials, with};
use crate::load::{Connection, fill, get, post};

/// Requests of each kind before counting, and counted requests.
const WARM: usize = 100;
const COUNTED: u64 = 300;
/// Records in each table before reads.
const RECORDS: usize = 100;
/// The tolerance above the count in the file, in percent.
const TOLERANCE: u64 = 5;
const HOLDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/instructions.json");

/// Counts, prints and compares. `write` writes the new counts to the file. `profiles FOLDER` keeps callgrind's files,
/// one for each kind of request.
pub(crate) async fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let (write, folder) = match arguments {
        [] => (false, None),
        ["write"] => (true, None),
        ["profiles", folder] => (false, Some(PathBuf::from(folder))),
        _ => bail!("`instructions`, `instructions write` or `instructions profiles FOLDER`"),
    };
    for tool in ["valgrind", "vgdb"] {
        let found = Command::new(tool).arg("--help").output();
        ensure!(found.is_ok(), "`{tool}` is missing: install valgrind, for instance by `apt install valgrind`");
    }
    let kept = folder.map_or_else(|| tempfile::tempdir().map(Kept::Briefly), |folder| Ok(Kept::There(folder)))?;
    let counts = count(kept.path()).await?;
    if write {
        std::fs::write(HOLDS, serde_json::to_string_pretty(&counts)? + "\n")?;
    }
    compare(&counts, &serde_json::from_slice(&std::fs::read(HOLDS)?)?)
}

enum Kept {
    Briefly(tempfile::TempDir),
    There(PathBuf),
}

impl Kept {
    fn path(&self) -> &Path {
        match self {
            Self::Briefly(folder) => folder.path(),
            Self::There(folder) => folder,
        }
    }
}

type Counts = BTreeMap<String, u64>;

fn compare(counts: &Counts, held: &Counts) -> anyhow::Result<()> {
    let (mut report, mut dearer) = (String::new(), Vec::new());
    for (name, count) in counts {
        let Some(held) = held.get(name).copied() else {
            dearer.push(name.as_str());
            writeln!(report, "{name}: {count} instructions, and none in the file")?;
            continue;
        };
        if count * 100 > held * (100 + TOLERANCE) {
            dearer.push(name.as_str());
        }
        #[expect(clippy::cast_precision_loss, reason = "a ratio for people to read")]
        let ratio = *count as f64 / held.max(1) as f64;
        writeln!(report, "{name}: {count} instructions, {ratio:.2} of the {held} in the file")?;
    }
    println!("\n{report}");
    let names = dearer.join(", ");
    ensure!(
        dearer.is_empty(),
        "more than {TOLERANCE}% above instructions.json: {names}. If that is as it should be, run \
         `cargo xtask bench instructions write` and commit the file"
    );
    Ok(())
}

/// Instructions for one request of each kind.
async fn count(folder: &Path) -> anyhow::Result<Counts> {
    let mut counts = Counts::new();
    let (plain, Credentials { jwt, session }) = &Counted::start(folder, "plain", "").await?;
    let address = plain.server.address;
    let post_id = fill(address, &post("/posts", RECORD), RECORDS).await?;
    let note_id = fill(address, &with(&post("/notes", RECORD), session), RECORDS).await?;
    let (one_post, one_note) = (format!("/posts/{post_id}"), format!("/notes/{note_id}"));
    for (name, request) in [
        ("healthz", get("/healthz")),
        ("get, public", get(&one_post)),
        ("get, by JWT", with(&get(&one_note), jwt)),
        ("get, by session", with(&get(&one_note), session)),
        ("list of 25, public", get("/posts?limit=25")),
        ("list of 25, by session", with(&get("/notes?limit=25"), session)),
        ("auth/me, by session", with(&get("/auth/me"), session)),
        ("create, public", post("/posts", RECORD)),
        ("create, by session", with(&post("/notes", RECORD), session)),
    ] {
        plain.count(&mut counts, name, &request).await?;
    }
    let (whole, me) = Counted::start(folder, "whole", "[outbox]\nenabled = true\n[audit]\nentities = true\n").await?;
    let request = with(&post("/notes", RECORD), &me.session);
    fill(whole.server.address, &request, RECORDS).await?;
    whole.count(&mut counts, "create, by session, outbox and audit", &request).await?;
    let by_hand = Counted::by_hand(folder)?;
    let id = fill(by_hand.server.address, &post("/posts", RECORD), RECORDS).await?;
    for (name, request) in [
        ("get, by hand", get(&format!("/posts/{id}"))),
        ("list of 25, by hand", get("/posts?limit=25")),
        ("create, by hand", post("/posts", RECORD)),
    ] {
        by_hand.count(&mut counts, name, &request).await?;
    }
    Ok(counts)
}

/// A server whose instructions are counted.
struct Counted {
    server: Server,
    files: PathBuf,
    _data: tempfile::TempDir,
}

impl Counted {
    /// The server of this project, with `more` configuration, and a user's credentials there.
    async fn start(folder: &Path, name: &str, more: &str) -> anyhow::Result<(Self, Credentials)> {
        let (files, data) = (files(folder, name)?, tempfile::tempdir()?);
        let config = files.join("gatewright.toml");
        std::fs::write(&config, format!("{more}{CONFIGURATION}"))?;
        let database = format!("sqlite://{}", data.path().join("counted.db").display());
        let mut program = callgrind(&files);
        program.arg(binary()?).args(["serve", "--listen", "127.0.0.1:0", "--database", &database, "--config"]);
        let server = Server::start(program.arg(config).env("RUST_LOG", "warn"))?;
        let me = Credentials::of_new_account(server.address).await?;
        let counted = Self { server, files, _data: data };
        counted.control(&["instrumentation", "on"])?;
        Ok((counted, me))
    }

    /// The program written by hand.
    fn by_hand(folder: &Path) -> anyhow::Result<Self> {
        let (files, data) = (files(folder, "by-hand")?, tempfile::tempdir()?);
        let mut program = callgrind(&files);
        program.arg(std::env::current_exe()?).args(["floor", "sqlite"]).arg(data.path().join("counted.db"));
        let counted = Self { server: Server::start(program.arg("group"))?, files, _data: data };
        counted.control(&["instrumentation", "on"])?;
        Ok(counted)
    }

    async fn count(&self, counts: &mut Counts, name: &str, request: &[u8]) -> anyhow::Result<()> {
        let mut connection = Connection::open(self.server.address).await?;
        for _ in 0..WARM {
            connection.exchange(request).await?;
        }
        self.dump("warm")?;
        for _ in 0..COUNTED {
            connection.exchange(request).await?;
        }
        let dump = self.dump(&name.replace(['/', ',', ' '], "-"))?;
        let total = dump.lines().find_map(|line| line.strip_prefix("totals: ")).context("a dump has its total")?;
        let count = total.trim().parse::<u64>()? / COUNTED;
        eprintln!("{name}: {count}");
        counts.insert(name.to_owned(), count);
        Ok(())
    }

    /// The count since the last call, as callgrind writes it.
    fn dump(&self, name: &str) -> anyhow::Result<String> {
        self.control(&["dump", name])?;
        let mut written = Vec::new();
        for file in std::fs::read_dir(&self.files)? {
            let file = file?.path();
            // Each file's number is greater than that of the previous one.
            if file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("count.")) {
                written.push(file);
            }
        }
        ensure!(written.len() == 1, "callgrind has written {} files", written.len());
        let kept = self.files.join(format!("callgrind.out.{name}"));
        std::fs::rename(&written[0], &kept)?;
        Ok(std::fs::read_to_string(&kept)?)
    }

    fn control(&self, words: &[&str]) -> anyhow::Result<()> {
        let mut command = Command::new("vgdb");
        let output = command.arg(format!("--pid={}", self.server.id())).args(words).output()?;
        let told = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "valgrind does not listen to vgdb: {told}");
        Ok(())
    }
}

/// The folder of one program's files.
fn files(folder: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let files = folder.join(name);
    std::fs::create_dir_all(&files)?;
    Ok(files)
}

/// Valgrind, to which the program is added.
fn callgrind(files: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--instr-atstart=no", "-q"]);
    command.arg(format!("--callgrind-out-file={}", files.join("count").display()));
    command
}

const RECORD: &str = r#"{"title":"A post","body":"A text of a hundred and some characters, as a short note or comment would have it, neither long nor empty.","status":"draft","views":17}"#;

const CONFIGURATION: &str = r#"
[auth]
jwt_secret = "a benchmark needs no secrecy, only bytes"
bcrypt_cost = 4
[[entity]]
name = "posts"
public = true
field = [
    { name = "title", type = "string", required = true, max = 200 },
    { name = "body", type = "text" },
    { name = "status", type = "enum", values = ["draft", "published"], default = "draft" },
    { name = "views", type = "int" },
]
[[entity]]
name = "notes"
owner_field = "owner_id"
field = [
    { name = "title", type = "string", required = true, max = 200 },
    { name = "body", type = "text" },
    { name = "status", type = "enum", values = ["draft", "published"], default = "draft" },
    { name = "views", type = "int" },
]
"#;
