//! Starts the real servers. Without the programs there is nothing to test, and `cargo xtask test` sees that they are
//! there.

use std::{io::Read, net::TcpStream, time::Duration};

use gatewright_servers::{PrivateNats, PrivatePostgres, PrivateRedis, find_program};

fn installed(program: &str) -> bool {
    let found = find_program(program).is_some();
    assert!(found || std::env::var_os("GATEWRIGHT_TEST_REQUIRED").is_none(), "{program} is not installed");
    found
}

fn answers(url: &str) -> bool {
    TcpStream::connect(address(url)).is_ok()
}

fn address(url: &str) -> &str {
    let rest = url.rsplit_once('@').map_or(url, |(_, rest)| rest);
    rest.split_once('/').map_or(rest, |(address, _)| address)
}

#[test]
fn a_postgres_survives_being_killed_and_is_gone_after_drop() {
    if !installed("postgres") {
        return;
    }
    let mut server = PrivatePostgres::start().unwrap();
    let url = server.url();
    assert!(answers(&url));
    server.kill();
    assert!(!answers(&url));
    server.restart().unwrap();
    assert_eq!(server.url(), url);
    assert!(answers(&url));
    drop(server);
    assert!(!answers(&url));
}

#[test]
fn a_redis_and_a_nats_come_back_on_their_port() {
    if installed("redis-server") {
        let mut redis = PrivateRedis::start().unwrap();
        redis.kill();
        assert!(!answers(&redis.url()));
        redis.restart().unwrap();
        assert!(answers(&redis.url()));
    }
    if installed("nats-server") {
        let mut nats = PrivateNats::start().unwrap();
        nats.kill();
        nats.restart().unwrap();
        let mut stream = TcpStream::connect(address(&nats.url())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut greeting = [0; 4];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting, b"INFO");
    }
}
