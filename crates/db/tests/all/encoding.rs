//! Postgres databases whose text is not UTF-8.

use gatewright_db::testing::engines;
use gatewright_db::{Db, Engine, OpenError, Options};

#[tokio::test]
async fn a_database_of_another_encoding_is_refused_and_the_error_names_it() {
    for test_db in engines().await {
        if test_db.db.engine() == Engine::Sqlite {
            Db::check_encoding(&test_db.url, &Options::default()).await.unwrap();
            continue;
        }
        Db::check_encoding(&test_db.url, &Options::default()).await.unwrap();
        for encoding in ["SQL_ASCII", "LATIN1"] {
            let name = format!("gw_test_{}_{}", encoding.to_lowercase(), std::process::id());
            let drop = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
            test_db.db.execute(drop.clone(), vec![]).await.unwrap();
            let create =
                format!("CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
            test_db.db.execute(create, vec![]).await.unwrap();
            let mut url = url::Url::parse(&test_db.url).unwrap();
            url.set_path(&name);
            let opened = Db::open(url.as_str(), Options::default()).await.map(|_| ());
            let checked = Db::check_encoding(url.as_str(), &Options::default()).await;
            for refused in [opened, checked] {
                let error = refused.expect_err(encoding);
                assert!(
                    matches!(&error, OpenError::Encoding { encoding: found, .. } if found == encoding),
                    "{error:?}"
                );
                assert!(error.to_string().contains("UTF8 is required"), "{error}");
                assert!(error.to_string().contains(&name), "{error}");
            }
            test_db.db.execute(drop, vec![]).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_not_refused_for_its_encoding() {
    Db::check_encoding("postgres://nobody@127.0.0.1:1/none", &Options::default()).await.unwrap();
}
