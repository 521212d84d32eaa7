use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context;

/// A server under load. Dropping it ends it.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts `command` and waits for its line `listening on http://…`.
    pub(crate) fn start(command: &mut Command) -> anyhow::Result<Self> {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().context("cannot start a server")?;
        let output = child.stdout.take().context("its output is piped")?;
        let mut lines = BufReader::new(output).lines();
        let address = loop {
            let line = lines.next().context("the server ended before it listened")??;
            if let Some(address) = line.split("listening on http://").nth(1) {
                break address.trim().parse()?;
            }
        };
        // Later output must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Self { child, address })
    }

    /// Starts the server of this project with a configuration file and a database.
    pub(crate) fn gatewright(config: &Path, database: &str) -> anyhow::Result<Self> {
        let mut command = Command::new(binary()?);
        command.args(["serve", "--listen", "127.0.0.1:0", "--database", database, "--config"]).arg(config);
        Self::start(command.env("RUST_LOG", "warn"))
    }

    /// The process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

/// The program of that server, which is beside this one.
pub(crate) fn binary() -> anyhow::Result<PathBuf> {
    let binary = std::env::current_exe()?.with_file_name("gatewright");
    anyhow::ensure!(binary.exists(), "build the server first: cargo build --release -p gatewright-cli");
    Ok(binary)
}

impl Drop for Server {
    fn drop(&mut self) {
        let _already_gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
