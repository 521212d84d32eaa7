//! Postgres compiles no statement.

use gatewright_db::testing::engines_with;
use gatewright_db::{Db, Error, Lane, Options, Row, Share, Tx};

/// Whether the server may compile statements, in each way to run one. A condition over several relations looks large to it.
pub(crate) async fn compiled(db: &Db) -> Vec<String> {
    const ASKED: &str = "SELECT current_setting('jit') AS jit";
    let of = |rows: Vec<Row>| rows[0].get::<String>("jit").unwrap();
    let transaction = async |tx: &Tx| tx.query(ASKED, vec![]).await;
    let write = db.write(async |tx: &Tx| -> Result<Vec<Row>, Error> { tx.query(ASKED, vec![]).await });
    vec![
        of(db.read(transaction).await.unwrap()),
        of(write.await.unwrap()),
        of(db.clone().lane(Lane::Lists(Share(1))).read(transaction).await.unwrap()),
    ]
}

#[tokio::test]
async fn postgres_compiles_no_statement() {
    for engine in engines_with(Options::default()).await.into_iter().filter(|engine| engine.name == "postgres") {
        let alone = engine.db.query("SELECT current_setting('jit') AS jit", vec![]).await.unwrap();
        assert_eq!(alone[0].get::<String>("jit").unwrap(), "off");
        assert_eq!(compiled(&engine.db).await, ["off"; 3]);
    }
}
