//! A real `PgBouncer` in transaction mode.

use gatewright_base::Secret;
use gatewright_db::testing::{REQUIRED, engines};
use gatewright_db::{Db, OpenError, Options};
use gatewright_servers::{PrivateBouncer, find_program};

#[tokio::test]
async fn a_pooler_in_transaction_mode_is_refused_without_a_direct_url() {
    let Some(engine) = engines().await.into_iter().find(|engine| engine.name == "postgres") else { return };
    if find_program("pgbouncer").is_none() {
        assert!(std::env::var(REQUIRED).is_err(), "`pgbouncer` is missing; run `cargo xtask test`");
        return;
    }
    let name = url::Url::parse(&engine.url).unwrap().path().trim_start_matches('/').to_owned();
    for connections in [1, 6] {
        let bouncer = PrivateBouncer::start(&engine.url, connections).unwrap();
        let pooled = bouncer.database_url(&name);
        let options = Options { direct_url: Some(Secret::new(engine.url.clone())), ..Options::default() };
        // Any number of existing pooler connections does not hide it.
        for _ in 0..2 {
            let refused = Db::open(&pooled, Options::default()).await;
            let Err(OpenError::Unreachable { reason, .. }) = refused else { panic!("{connections}: {refused:?}") };
            assert!(reason.contains("database.direct_url"), "{reason}");
            let db = Db::open(&pooled, options.clone()).await.unwrap();
            let several = (0..4).map(|_| db.query("SELECT pg_sleep(0.05)", vec![]));
            futures_util::future::try_join_all(several).await.unwrap();
            // A single read has no transaction whose settings it could have: the server's own apply.
            assert_eq!(crate::compiled::compiled(&db).await[1..], ["off"; 2]);
        }
    }
    engine.db.ping().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_behind_a_pooler_is_whole_and_keeps_its_settings_to_itself() {
    let Some(engine) = engines().await.into_iter().find(|engine| engine.name == "postgres") else { return };
    if find_program("pgbouncer").is_none() {
        assert!(std::env::var(REQUIRED).is_err(), "`pgbouncer` is missing; run `cargo xtask test`");
        return;
    }
    let name = url::Url::parse(&engine.url).unwrap().path().trim_start_matches('/').to_owned();
    let bouncer = PrivateBouncer::start(&engine.url, 6).unwrap();
    let options = Options { direct_url: Some(Secret::new(engine.url.clone())), ..Options::default() };
    let db = Db::open(&bouncer.database_url(&name), options).await.unwrap();
    let limit = "SELECT current_setting('statement_timeout') AS limited";
    let before = db.query(limit, vec![]).await.unwrap()[0].get::<String>("limited").unwrap();
    let export = |rows: i64| {
        // In FROM, the server would write all rows to its disk first.
        let sql = "SELECT generate_series(1, ?1::bigint)::text AS x";
        db.export(sql, gatewright_db::params![rows], std::time::Duration::from_hours(1), |row, out| {
            out.extend_from_slice(row.get::<String>(0)?.as_bytes());
            out.push(b'\n');
            Ok(())
        })
    };
    let mut whole = export(100_000);
    let mut text = Vec::new();
    while let Some(piece) = whole.next().await.unwrap() {
        text.extend_from_slice(&piece);
    }
    assert_eq!(String::from_utf8(text).unwrap().lines().count(), 100_000);
    for _ in 0..12 {
        let after = db.query(limit, vec![]).await.unwrap()[0].get::<String>("limited").unwrap();
        assert_eq!(after, before, "the time of an export is that of its transaction");
    }
}
