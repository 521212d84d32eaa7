//! A client that disconnects at any moment of a request: its change is stored as a whole, or not at all.

mod acts;
mod doors;
mod place;
mod restricted;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use gatewright_db::testing::TestDb;
use gatewright_db::{Engine, params};
use http::Method;

use self::acts::Act;
pub(crate) use self::place::Place;
use crate::support::{Call, databases};

/// How often each row of a table is there.
type Rows = BTreeMap<String, BTreeMap<String, usize>>;

/// Every row of every table, as text.
async fn rows(db: &TestDb) -> Rows {
    let texts = async |sql: &str| {
        let rows = db.db.query(sql.to_owned(), params![]).await.unwrap();
        rows.iter().map(|row| row.get::<String>("text").unwrap()).collect::<Vec<_>>()
    };
    let sqlite = db.db.engine() == Engine::Sqlite;
    let tables = texts(if sqlite {
        "SELECT name AS text FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    } else {
        "SELECT tablename::text AS text FROM pg_tables WHERE schemaname = current_schema()"
    });
    let mut all = Rows::new();
    for table in tables.await {
        let row = if sqlite {
            let columns = texts(&format!("SELECT name AS text FROM pragma_table_info('{table}')")).await;
            columns.iter().map(|name| format!("quote(\"{name}\")")).collect::<Vec<_>>().join(" || ', ' || ")
        } else {
            format!("\"{table}\"::text")
        };
        let kept: &mut BTreeMap<_, _> = all.entry(table.clone()).or_default();
        for text in texts(&format!("SELECT {row} AS text FROM \"{table}\"")).await {
            *kept.entry(text).or_default() += 1;
        }
    }
    all
}

/// How many rows of each table were removed and added.
fn change(before: &Rows, after: &Rows) -> BTreeMap<String, (usize, usize)> {
    let more = |one: &Rows, than: &Rows, table: &str| -> usize {
        let other = than.get(table);
        let surplus = |(row, count): (&String, &usize)| {
            count.saturating_sub(other.and_then(|other| other.get(row)).copied().unwrap_or_default())
        };
        one.get(table).into_iter().flatten().map(surplus).sum()
    };
    let changed = |table: &String| (table.clone(), (more(before, after, table), more(after, before, table)));
    after.keys().map(changed).filter(|(_, change)| *change != (0, 0)).collect()
}

#[tokio::test]
async fn a_request_that_is_cut_at_any_moment_is_done_as_a_whole_or_not_at_all() {
    for Act { name, door, prepare } in acts::all() {
        for db in databases().await {
            let place = Place::on(&db).await;
            let (mut cuts, mut whole) = (Vec::new(), None);
            for polls in 1..200 {
                let email = format!("{name}-{polls}@example.com");
                let call = prepare(&place, &email).await;
                assert!(call.is_of(door), "{name} is not a request of {door}");
                place.site.auth.settle(Duration::from_mins(1)).await;
                let before = rows(&db).await;
                let answered = call.cut(&place.site, polls).await;
                place.site.auth.settle(Duration::from_mins(1)).await;
                let changed = change(&before, &rows(&db).await);
                place.site.advance(1);
                match answered {
                    Some(status) => {
                        assert!(status.is_success() || status.is_redirection(), "{name}: {status}, {}", db.name);
                        whole = Some(changed);
                        break;
                    }
                    None => cuts.push(changed),
                }
            }
            let whole = whole.expect("the request is answered at last");
            assert!(!whole.is_empty() && !cuts.is_empty(), "{name} changes rows, and can be cut, {}", db.name);
            for (polls, changed) in cuts.iter().enumerate() {
                assert!(
                    changed.is_empty() || *changed == whole,
                    "{name}, cut after {} polls: {changed:?}, whole: {whole:?}, {}",
                    polls + 1,
                    db.name
                );
            }
        }
    }
}

#[tokio::test]
async fn of_two_parallel_removals_of_different_kinds_one_succeeds() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let (ann, id) = place.passwordless("ann@example.com").await;
        for round in 0..10 {
            let passkey = place.passkey(&id).await;
            place.link(&id).await;
            let remove = [format!("/auth/passkeys/{passkey}"), "/auth/unlink/alpha".to_owned()];
            let remove = remove.map(|path| Call::new(Method::DELETE, &path).cookie_of(&ann).send(&place.site));
            let answers = join_all(remove).await;
            let statuses: Vec<_> = answers.iter().map(|answer| answer.status.as_u16()).collect();
            let removed = statuses.iter().filter(|status| [200, 204].contains(status)).count();
            let refused = statuses.iter().filter(|status| **status == 409).count();
            assert_eq!((removed, refused), (1, 1), "{statuses:?} in round {round}, {}", db.name);
            // The other is removed by an operator's hand, for the next round.
            for table in ["passkeys", "users_oauth_links"] {
                let sql = format!("DELETE FROM {table} WHERE user_id = ?1");
                db.db.execute(sql, params![&id]).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn of_twenty_parallel_removals_of_passkeys_one_way_to_sign_in_remains() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let (ann, id) = place.passwordless("bob@example.com").await;
        let passkeys = join_all((0..20).map(|_| place.passkey(&id))).await;
        let remove = passkeys.iter().map(|passkey| {
            Call::new(Method::DELETE, &format!("/auth/passkeys/{passkey}")).cookie_of(&ann).send(&place.site)
        });
        let answers = join_all(remove).await;
        let removed = answers.iter().filter(|answer| answer.status == 204).count();
        assert_eq!(removed, 19, "{}", db.name);
    }
}
