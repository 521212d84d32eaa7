//! What is sent before an orderly stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use gatewright_base::{Ambient, Secret};
use gatewright_events::Bus;
use gatewright_events::fanout::{Fanout, FanoutError, FanoutOptions, NatsFanout, Receiver, attach};
use gatewright_events::outbox::Backoff;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};

use super::backends::{Silent, quick, until};
use crate::support::event;

/// Fails once, as over a connection that ended unnoticed, and keeps what it is given after that.
#[derive(Default)]
struct FailsOnce {
    has_failed: AtomicBool,
    sent: Mutex<Vec<Bytes>>,
}

#[async_trait]
impl Fanout for FailsOnce {
    fn name(&self) -> &'static str {
        "fails once"
    }

    async fn send(&self, messages: &[Bytes]) -> Result<usize, FanoutError> {
        if messages.iter().all(|message| message.starts_with(b"probe ")) {
            return Ok(0);
        }
        if !self.has_failed.swap(true, Ordering::Relaxed) {
            return Err(FanoutError::new("the connection ended"));
        }
        self.sent.lock().unwrap().extend_from_slice(messages);
        Ok(0)
    }

    async fn listen(&self) -> Result<Box<dyn Receiver>, FanoutError> {
        Ok(Box::new(Silent(Arc::default())))
    }
}

#[tokio::test]
async fn events_whose_sending_failed_before_an_orderly_stop_are_sent() {
    let (bus, backend) = (Bus::new(&Ambient::system()), Arc::new(FailsOnce::default()));
    let hour = Duration::from_hours(1);
    let options = FanoutOptions { backoff: Backoff { first: hour, cap: hour }, ..quick() };
    let attached = attach(&bus, backend.clone(), Ambient::system(), options);
    assert!(bus.publish(event(0)).is_none());
    until(|| backend.has_failed.load(Ordering::Relaxed)).await;
    attached.stop(Duration::from_mins(1)).await;
    assert_eq!(backend.sent.lock().unwrap().len(), 1);
}

/// A NATS server that tells what is published, and delivers what is published to inboxes once it is let.
async fn delayed_nats() -> (String, mpsc::UnboundedReceiver<String>, Arc<Notify>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("nats://{}", listener.local_addr().unwrap());
    let ((published, seen), released) = (mpsc::unbounded_channel(), Arc::new(Notify::new()));
    let delivers = released.clone();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let (read, mut write) = stream.into_split();
        let info = r#"INFO {"server_id":"x","version":"2.10.0","host":"127.0.0.1","port":4222,"max_payload":1048576}"#;
        write.write_all(format!("{info}\r\n").as_bytes()).await.unwrap();
        let (mut lines, mut subscription) = (BufReader::new(read).lines(), String::new());
        while let Ok(Some(line)) = lines.next_line().await {
            let words: Vec<&str> = line.split(' ').collect();
            let answer = match *words {
                ["PING"] => "PONG\r\n".to_owned(),
                ["SUB", _, id] => {
                    id.clone_into(&mut subscription);
                    continue;
                }
                ["PUB", subject, length] => {
                    let payload = lines.next_line().await.unwrap().unwrap();
                    published.send(subject.to_owned()).unwrap();
                    if !subject.starts_with("_INBOX") {
                        continue;
                    }
                    delivers.notified().await;
                    format!("MSG {subject} {subscription} {length}\r\n{payload}\r\n")
                }
                _ => continue,
            };
            write.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (url, seen, released)
}

/// What the driver has only queued, or the server has not read, would be lost with the connection.
#[tokio::test]
async fn messages_are_sent_over_nats_once_the_server_has_them() {
    let (url, mut published, released) = delayed_nats().await;
    let backend = NatsFanout::open(&Secret::new(url)).unwrap();
    let sending = tokio::spawn(async move { backend.send(&[Bytes::from_static(b"one")]).await });
    let next = async |published: &mut mpsc::UnboundedReceiver<String>| {
        tokio::time::timeout(Duration::from_mins(1), published.recv()).await.expect("it is published").unwrap()
    };
    assert_eq!(next(&mut published).await, "gatewright_events");
    assert!(next(&mut published).await.starts_with("_INBOX"), "a message that comes back follows the batch");
    assert!(!sending.is_finished());
    released.notify_one();
    assert_eq!(sending.await.unwrap().unwrap(), 0);
}
