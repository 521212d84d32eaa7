//! Where packages run: a copy of this machine with the Debian package installed, and the file system of the image, each
//! in the sandbox that its unit describes.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use gatewright_servers::{Folder, find_program, is_superuser};

use super::{Finished, Launch, binary, clean, finish};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The file system of a packaged server. `tests/tools/sandbox.py` starts commands in it as the unit says.
pub(crate) struct Sandbox {
    /// The description of the sandbox, as systemd reads it.
    unit: PathBuf,
    // Dropped before the folder, which it has mounted.
    machine: Option<Machine>,
    folder: Folder,
}

/// A process that keeps a copy of this machine mounted, where only it and those that enter its namespace see it.
struct Machine(Child);

impl Sandbox {
    /// A copy of this machine on which the Debian package of the binary is installed. `None` if this machine cannot do
    /// that and need not.
    pub(crate) fn installed() -> Option<Self> {
        if !is_able() {
            return None;
        }
        let folder = Folder::create("sandbox").unwrap();
        for name in ["root", "layers", "state"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let machine = Some(Machine::start(folder.path()));
        let unit = folder.path().join("gatewright.service");
        let sandbox = Self { unit, machine, folder };
        fs::copy(package(&sandbox.folder.path().join("package")), sandbox.path("/srv/gatewright.deb")).unwrap();
        let installed = sandbox.on_the_machine(&["dpkg", "--install", "/srv/gatewright.deb"]);
        assert_eq!(installed.status, 0, "{installed:?}");
        let text = fs::read_to_string(sandbox.path("/usr/lib/systemd/system/gatewright.service")).unwrap();
        sandbox.use_unit(&text);
        Some(sandbox)
    }

    /// The file system that the `Dockerfile` describes, with the libraries and certificates of this machine, and what
    /// `docker run --read-only --cap-drop ALL` does, as a unit.
    pub(crate) fn image() -> Option<Self> {
        if !is_able() {
            return None;
        }
        let folder = Folder::create("sandbox").unwrap();
        let root = folder.path().join("root");
        for name in ["root/proc", "root/dev", "root/tmp", "root/etc/ssl/certs", "state"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        let image = Instructions::of_the_image();
        for copied in image.all("COPY") {
            let words: Vec<_> = copied.split_whitespace().filter(|word| !word.starts_with("--")).collect();
            match words[..] {
                ["/image/usr/bin/gatewright", to] => copy_with_libraries(binary(), &root, to),
                ["/image/data", to] => fs::create_dir_all(root.join(&to[1..])).unwrap(),
                _ => panic!("the image has another file: {copied}"),
            }
        }
        // What the base image and Docker bring.
        for name in ["hosts", "resolv.conf", "ssl/certs/ca-certificates.crt"] {
            fs::copy(Path::new("/etc").join(name), root.join("etc").join(name)).unwrap();
        }
        let (user, group) = image.one("USER").split_once(':').unwrap();
        let (words, folder_of_data) = (image.one("ENTRYPOINT").to_owned() + image.one("CMD"), image.one("WORKDIR"));
        let command = words.replace(['[', ']'], " ").replace(',', " ");
        let unit = format!(
            "[Service]\nUser={user}\nGroup={group}\nWorkingDirectory={folder_of_data}\nReadWritePaths={}\n\
             Environment={}\nEnvironmentFile=-/etc/environment\nExecStart={command}\nProtectSystem=strict\n\
             CapabilityBoundingSet=\nNoNewPrivileges=yes\n",
            image.one("VOLUME"),
            image.one("ENV"),
        );
        let sandbox = Self { unit: folder.path().join("image.service"), machine: None, folder };
        sandbox.use_unit(&unit);
        Some(sandbox)
    }

    /// Changes the unit, as an operator does.
    pub(crate) fn use_unit(&self, text: &str) {
        fs::write(&self.unit, text).unwrap();
    }

    pub(crate) fn unit(&self) -> String {
        fs::read_to_string(&self.unit).unwrap()
    }

    /// A path on the machine, as this process reaches it.
    pub(crate) fn path(&self, on_the_machine: &str) -> PathBuf {
        let root = self.root();
        let root = match &self.machine {
            Some(machine) => Path::new(&format!("/proc/{}/root", machine.0.id())).join(root.strip_prefix("/").unwrap()),
            None => root,
        };
        root.join(on_the_machine.strip_prefix('/').unwrap())
    }

    /// The folder that the unit may write, as this process reaches it.
    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// Runs a command of the machine as root and without the sandbox, as an administrator does.
    pub(crate) fn on_the_machine(&self, words: &[&str]) -> Finished {
        let mut command = self.enter();
        command.push("chroot".into());
        command.push(self.root().display().to_string());
        command.extend(words.iter().copied().map(str::to_owned));
        run(&command, "")
    }

    /// Runs the unit's `ExecStartPre`, or `--` and a command, in the unit's sandbox.
    pub(crate) fn run(&self, words: &[&str], input: &str) -> Finished {
        run(&self.words(words), input)
    }

    /// Starts the server as the unit does.
    pub(crate) fn launch(&self) -> Launch {
        Launch::command(self.words(&["ExecStart"]))
    }

    fn words(&self, command: &[&str]) -> Vec<String> {
        let mut words = self.enter();
        words.push(format!("{REPOSITORY}/tests/tools/sandbox.py"));
        words.extend([&self.unit, &self.root(), &self.state()].map(|path| path.display().to_string()));
        words.extend(command.iter().copied().map(str::to_owned));
        words
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// The words before a command that sees the machine.
    fn enter(&self) -> Vec<String> {
        match &self.machine {
            Some(machine) => vec!["nsenter".into(), format!("--mount=/proc/{}/ns/mnt", machine.0.id()), "--".into()],
            None => vec!["env".into()],
        }
    }
}

impl Machine {
    /// Mounts this machine below `folder`: what is written there goes to `folder/layers`. The kernel unmounts it when
    /// the process ends, which ends with its input.
    fn start(folder: &Path) -> Self {
        let mount = "mount -t overlay overlay -o lowerdir=/,upperdir=layers/upper,workdir=layers/work root";
        // An overlay of an overlay, such as a container's root, needs its upper layer elsewhere.
        let script = format!(
            "mkdir layers/upper layers/work; {mount} 2>&- || {{ mount -t tmpfs tmpfs layers; mkdir layers/upper layers/work; \
             {mount}; }}; mount --bind /dev root/dev; mount -t proc proc root/proc; echo mounted; exec cat"
        );
        let mut child = Command::new("unshare")
            .args(["--mount", "sh", "-euc", &script])
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let machine = Self(child);
        assert_eq!(line, "mounted\n", "no copy of this machine: the tests of packages need overlayfs");
        machine
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Whether this machine can start a sandbox. Fails if it cannot and the tests are required.
fn is_able() -> bool {
    let missing = || {
        if !is_superuser() {
            return Some("the tests of packages mount file systems: run them as root");
        }
        let programs = ["systemd-analyze", "nsenter", "unshare", "dpkg-deb", "dpkg-shlibdeps", "adduser"];
        let found = programs.iter().all(|name| find_program(name).is_some());
        let mut python = Command::new("/usr/bin/python3");
        let module = python.args(["-c", "import seccomp"]).status().is_ok_and(|status| status.success());
        (!found || !module).then_some("a program of the sandbox is missing: run `cargo xtask test`")
    };
    let missing = missing();
    assert!(missing.is_none() || env::var_os("GATEWRIGHT_TEST_REQUIRED").is_none(), "{missing:?}");
    missing.is_none()
}

/// Builds the Debian package of the binary under test in a folder.
fn package(folder: &Path) -> PathBuf {
    let mut build = clean(Command::new(format!("{REPOSITORY}/packaging/build-deb.sh")));
    // A binary for tests is large, and is installed at once.
    build.arg(binary()).arg(folder).env("DPKG_DEB_COMPRESSOR_TYPE", "none");
    let finished = finish(build, "");
    assert_eq!(finished.status, 0, "{finished:?}");
    let mut files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let package = files.next().unwrap();
    assert_eq!(files.next(), None, "nothing but the package");
    package
}

fn run(words: &[String], input: &str) -> Finished {
    let mut command = clean(Command::new(&words[0]));
    command.args(&words[1..]);
    finish(command, input)
}

fn copy_with_libraries(program: &Path, root: &Path, to: &str) {
    let output = Command::new("ldd").arg(program).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let libraries = text.split_whitespace().filter(|word| word.starts_with('/')).map(|word| (Path::new(word), word));
    for (from, to) in [(program, to)].into_iter().chain(libraries) {
        let to = root.join(&to[1..]);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap();
    }
}

/// The instructions of the `Dockerfile`'s last stage.
struct Instructions(BTreeMap<String, Vec<String>>);

impl Instructions {
    fn of_the_image() -> Self {
        let text = fs::read_to_string(format!("{REPOSITORY}/Dockerfile")).unwrap();
        let (_, stage) = text.rsplit_once("\nFROM ").unwrap();
        let mut found = BTreeMap::<_, Vec<_>>::new();
        for line in stage.lines().skip(1).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (word, rest) = line.split_once(' ').unwrap();
            found.entry(word.to_owned()).or_default().push(rest.to_owned());
        }
        Self(found)
    }

    fn all(&self, word: &str) -> &[String] {
        &self.0[word]
    }

    fn one(&self, word: &str) -> &str {
        let [only] = self.all(word) else { panic!("not one {word}") };
        only
    }
}
