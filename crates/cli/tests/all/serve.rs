use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use super::harness::{program, run};

/// Kills its server when a test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Production logs JSON lines, without a terminal, and stops cleanly on SIGINT and on SIGTERM.
#[test]
fn a_production_server_logs_json_and_stops_cleanly_on_either_signal() {
    for signal in ["INT", "TERM"] {
        let folder = tempfile::tempdir().unwrap();
        run(folder.path(), &["init"], "").succeeded();
        let mut command = program(folder.path());
        command.args(["serve", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut server = Running(command.spawn().unwrap());
        let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        let address = first.strip_prefix("listening on http://").unwrap();

        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
        let mut begun = [0; 15];
        stream.read_exact(&mut begun).unwrap();
        assert_eq!(&begun, b"HTTP/1.1 200 OK");

        let kill = std::process::Command::new("kill").args(["-s", signal, &server.0.id().to_string()]).status();
        assert!(kill.unwrap().success());
        assert_eq!(server.0.wait().unwrap().code(), Some(0), "SIG{signal}");
        let mut log = String::new();
        server.0.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        assert!(log.contains("stopped"), "{log}");
        for line in log.lines() {
            serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|_| panic!("not JSON: {line}"));
        }
    }
}

#[test]
fn without_a_file_and_dev_mode_the_error_names_the_next_step() {
    let folder = tempfile::tempdir().unwrap();
    let ended = run(folder.path(), &["serve", "--listen", "127.0.0.1:0"], "");
    ended.failed_saying(&["gatewright init", "auth.jwt_secret", "gatewright secret"]);
    assert_eq!(ended.out, "");
}
