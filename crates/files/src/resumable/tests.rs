use std::convert::Infallible;
use std::time::Duration;

use super::*;
use crate::testing::{self, account};

/// So many bytes, and then none for long, or the end.
fn sent(size: u64, is_whole: bool) -> Paced<impl Stream<Item = Result<Bytes, Infallible>> + Unpin> {
    let bytes: Result<Bytes, Infallible> = Ok(Bytes::from(vec![0; usize::try_from(size).unwrap()]));
    let rest = if is_whole { stream::empty().left_stream() } else { stream::pending().right_stream() };
    Paced::new(stream::iter([bytes]).chain(rest))
}

async fn begun(files: &Files, length: u64) -> Resumable {
    let wanted = Wanted { name: "a.bin", length, metadata: "", keep_metadata: false };
    files.begin_resumable(&account(), &wanted).await.unwrap()
}

async fn is_stored(files: &Files, upload: &Resumable, number: u64) -> bool {
    files.0.store.exists(&key(&upload.id, number)).await.unwrap()
}

/// Waits until an object is there, or not.
async fn until(files: &Files, upload: &Resumable, number: u64, is_there: bool) {
    for _ in 0..1_000 {
        if is_stored(files, upload, number).await == is_there {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("object {number}: {is_there} is not so");
}

#[tokio::test]
async fn a_request_that_is_dropped_leaves_nothing_that_does_not_count() {
    for opened in testing::opened().await {
        let (files, account) = (&opened.files, account());
        let upload = begun(files, 2 * PIECE).await;
        let checksum = Some(Checksum::Sha256(vec![0; 32]));
        let brought = Brought { offset: 0, expected: None, checksum };
        let mut bytes = sent(PIECE, false);
        let is_dropped = tokio::select! {
            _ = files.append(&account, &upload, brought, &mut bytes) => false,
            () = until(files, &upload, 1, true) => true,
        };
        assert!(is_dropped, "{}", opened.engine.name);
        until(files, &upload, 1, false).await;
        // Without a checksum, what was stored before counts, and stays.
        let brought = Brought { offset: 0, expected: None, checksum: None };
        let mut bytes = sent(PIECE, false);
        let counted = async {
            while files.resumable(&account, &upload.id).await.unwrap().received == 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            _ = files.append(&account, &upload, brought, &mut bytes) => panic!("it has an end"),
            () = counted => {}
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(is_stored(files, &upload, 2).await, "{}", opened.engine.name);
        let upload = files.resumable(&account, &upload.id).await.unwrap();
        let brought = Brought { offset: PIECE, expected: None, checksum: None };
        let (received, _) = files.append(&account, &upload, brought, &mut sent(PIECE, true)).await.unwrap();
        assert_eq!(received, 2 * PIECE, "{}", opened.engine.name);
    }
}

#[tokio::test]
async fn the_next_request_deletes_what_a_server_left_that_died() {
    for opened in testing::opened().await {
        let (files, account) = (&opened.files, account());
        let upload = begun(files, 10).await;
        let (db, now) = (&files.0.db, files.0.ambient.now());
        rows::take(db, account.share, &upload.id, 0, "dead", now).await.unwrap();
        let number = rows::number(db, account.share, &upload.id, "dead").await.unwrap();
        let mut writer = files.0.store.write(&key(&upload.id, number)).await.unwrap();
        writer.write(b"dead").await.unwrap();
        writer.finish().await.unwrap();
        let brought = Brought { offset: 0, expected: Some(4), checksum: None };
        let (received, _) = files.append(&account, &upload, brought, &mut sent(4, true)).await.unwrap();
        assert_eq!(received, 4, "{}", opened.engine.name);
        assert!(!is_stored(files, &upload, number).await, "{}", opened.engine.name);
        assert!(is_stored(files, &upload, number + 1).await, "{}", opened.engine.name);
    }
}
