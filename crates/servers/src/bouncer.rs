use std::{fs, path::Path};

use crate::{
    Error, Folder,
    account::Account,
    daemon::{Daemon, free_port, password, program},
};

/// A `PgBouncer` in transaction mode on a loopback port, before a Postgres server.
#[derive(Debug)]
pub struct PrivateBouncer {
    daemon: Daemon,
    port: u16,
    password: String,
}

impl PrivateBouncer {
    /// Starts a pooler in front of the server at `url`, with this many connections to each database.
    pub fn start(url: &str, connections: usize) -> Result<Self, Error> {
        let program = program("pgbouncer", "pgbouncer")?;
        let Some(server) = target(url) else { return Err(Error::new("the URL has no user, host or port")) };
        let account = Account::to_switch_to()?;
        let folder = Folder::create("pgbouncer")?;
        let run = folder.path().join("run");
        fs::create_dir(&run).map_err(Error::during(format_args!("cannot create {}", run.display())))?;
        let (port, password) = (free_port()?, password()?);
        let users = folder.write_secret("users", &format!("\"client\" \"{password}\"\n"))?;
        let text = format!(
            "[databases]\n* = {server}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = plain\nauth_file = {}\npidfile = {}\npool_mode = transaction\n\
             default_pool_size = {connections}\nmax_client_conn = 500\n",
            users.display(),
            run.join("pid").display(),
        );
        let settings = folder.write_secret("pgbouncer.ini", &text)?;
        if let Some(account) = account {
            folder.let_through()?;
            for path in [&run, &users, &settings] {
                account.owns(path)?;
            }
        }
        let ready = Box::new(move |process| is_ready(&run.join("pid"), port, process));
        let arguments = vec![settings.into()];
        let mut daemon = Daemon { program, arguments, account, stop_signal: "TERM", ready, running: None, folder };
        daemon.start()?;
        Ok(Self { daemon, port, password })
    }

    /// The URL of a database of the server, through the pooler.
    pub fn database_url(&self, name: &str) -> String {
        format!("postgres://client:{}@127.0.0.1:{}/{name}", self.password, self.port)
    }

    /// Ends it with SIGKILL.
    pub fn kill(&mut self) {
        self.daemon.kill();
    }

    /// Starts a killed one again, on the same port.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.daemon.stop();
        self.daemon.start()
    }
}

/// The words of a connection string for `postgres://USER[:PASSWORD]@HOST:PORT/…`.
fn target(url: &str) -> Option<String> {
    let (account, rest) = url.split_once("://")?.1.split_once('@')?;
    let (host, port) = rest.split('/').next()?.split_once(':')?;
    let (user, password) = account.split_once(':').unwrap_or((account, ""));
    let password = if password.is_empty() { String::new() } else { format!(" password={password}") };
    Some(format!("host={host} port={port} user={user}{password}"))
}

/// Whether the process itself answers: it writes its id before it listens.
fn is_ready(pid: &Path, port: u16, process: u32) -> bool {
    let own = fs::read_to_string(pid).is_ok_and(|text| text.trim() == process.to_string());
    own && std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_is_read_from_a_url() {
        let target = |url| target(url).unwrap_or_default();
        assert_eq!(target("postgres://a@127.0.0.1:5432/x"), "host=127.0.0.1 port=5432 user=a");
        assert_eq!(target("postgres://a:b@h:1/x"), "host=h port=1 user=a password=b");
        assert_eq!(target("postgres://h/x"), "");
    }
}
