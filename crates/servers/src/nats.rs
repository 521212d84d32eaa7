use std::{
    io::{BufRead, BufReader},
    net::TcpStream,
    time::Duration,
};

use crate::{
    Error, Folder,
    daemon::{Daemon, free_port, password, program},
};

/// A NATS server of one's own on a loopback port.
#[derive(Debug)]
pub struct PrivateNats {
    daemon: Daemon,
    port: u16,
    password: String,
}

impl PrivateNats {
    /// Starts a server.
    pub fn start() -> Result<Self, Error> {
        let program = program("nats-server", "nats-server")?;
        let folder = Folder::create("nats")?;
        let (port, password) = (free_port()?, password()?);
        let name = format!("gatewright-{password:.8}");
        let text = format!(
            "listen: \"127.0.0.1:{port}\"\nserver_name: \"{name}\"\n\
             authorization {{ user: \"gatewright\", password: \"{password}\" }}\n"
        );
        let settings = folder.write_secret("nats.conf", &text)?;
        let ready = Box::new(move |_| is_ready(port, &name));
        let arguments = vec!["-c".into(), settings.into()];
        let mut daemon =
            Daemon { program, arguments, account: None, stop_signal: "TERM", ready, running: None, folder };
        daemon.start()?;
        Ok(Self { daemon, port, password })
    }

    /// The server's URL.
    pub fn url(&self) -> String {
        format!("nats://gatewright:{}@127.0.0.1:{}", self.password, self.port)
    }

    /// Ends the server with SIGKILL.
    pub fn kill(&mut self) {
        self.daemon.kill();
    }

    /// Starts a killed server again on the same port.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.daemon.stop();
        self.daemon.start()
    }
}

/// Whether the server that greets on the port is the one of this name.
fn is_ready(port: u16, name: &str) -> bool {
    let ask = || -> std::io::Result<bool> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        let mut greeting = String::new();
        BufReader::new(stream).read_line(&mut greeting)?;
        Ok(greeting.contains(name))
    };
    ask().unwrap_or(false)
}
