use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    time::Duration,
};

use crate::{
    Error, Folder,
    daemon::{Daemon, free_port, password, program},
};

/// A Redis server of one's own on a loopback port. It keeps nothing on disk: a restart empties it.
#[derive(Debug)]
pub struct PrivateRedis {
    daemon: Daemon,
    port: u16,
    password: String,
}

impl PrivateRedis {
    /// Starts an empty server.
    pub fn start() -> Result<Self, Error> {
        let program = program("redis-server", "redis-server")?;
        let folder = Folder::create("redis")?;
        let (port, password) = (free_port()?, password()?);
        let text = format!(
            "bind 127.0.0.1\nport {port}\nrequirepass {password}\ndir {}\nsave \"\"\nappendonly no\ndaemonize no\n",
            folder.path().display()
        );
        // A file, not arguments: every user of the machine may read arguments.
        let settings = folder.write_secret("redis.conf", &text)?;
        let ready = {
            let password = password.clone();
            Box::new(move |process| is_ready(port, &password, process))
        };
        let arguments = vec![settings.into()];
        let mut daemon =
            Daemon { program, arguments, account: None, stop_signal: "TERM", ready, running: None, folder };
        daemon.start()?;
        Ok(Self { daemon, port, password })
    }

    /// The URL of database 0.
    pub fn url(&self) -> String {
        format!("redis://:{}@127.0.0.1:{}/0", self.password, self.port)
    }

    /// Ends the server with SIGKILL.
    pub fn kill(&mut self) {
        self.daemon.kill();
    }

    /// Starts a killed server again, empty, on the same port.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.daemon.stop();
        self.daemon.start()
    }
}

/// Whether the process itself answers, and not another one that took the port.
fn is_ready(port: u16, password: &str, process: u32) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        write!(stream, "AUTH {password}\r\nINFO server\r\nQUIT\r\n")?;
        let wanted = format!("process_id:{process}");
        for line in BufReader::new(stream).lines() {
            if line? == wanted {
                return Ok(true);
            }
        }
        Ok(false)
    };
    ask().unwrap_or(false)
}
