//! Both engines against the evaluator in memory: the same records, in the same order, for generated queries.

use std::collections::BTreeMap;

use gatewright_base::{Ambient, Identity};
use gatewright_db::testing::{TestDb, engines};
use serde_json::{Value as Json, json};

use super::query::Query;
use super::stored::{Indexed, matches, rank};
use super::words;
use crate::{Call, Entities, Entity, Field, Language, ListQuery, Users};

/// Texts in six languages: words that a record's texts are made of.
const CORPUS: [(&str, &str); 6] = [
    (
        "english",
        "The runner was running home; ponies don't run 3.14 miles at O'Brien's re-entry. Crying babies cried often OFTEN",
    ),
    (
        "german",
        "Die Häuser der STRASSE und Straße: Müllers Haus liegt außerhalb, größere Größen, aufgeräumte Räume, ﬁne Ordnungen",
    ),
    (
        "french",
        "L'été dernier, les élèves continuaient continuellement; œuvre d'art aujourd'hui, cafés et CAFE\u{301}S à Orléans",
    ),
    ("russian", "Книги о книгах, книгами и КНИГЕ: ёлка, подъезд, читающие читатели читали журналы 2020-х"),
    ("arabic", "الكتاب والكتب والكاتب ﷺ مكتبة المدرسة مدرسون ١٢٣ في البيت"),
    ("simple", "日本語のテキスト 東京タワー한국어 텍스트 ภาษาไทย 👩‍👩‍👧 🇩🇪 😀 צה\"ל café_au_lait x@y.z a1b2"),
];

/// Numbers that look random and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    fn text(&mut self, words: &[&str], most: usize) -> String {
        let count = self.below(most);
        (0..count).map(|_| self.pick(words)).collect::<Vec<_>>().join([" ", ", ", "\n"][self.below(3)])
    }

    fn query(&mut self, words: &[&str]) -> String {
        let mut parts = Vec::new();
        for _ in 0..=self.below(4) {
            let word = self.pick(words);
            parts.push(match self.below(9) {
                0 => format!("\"{word} {}\"", self.pick(words)),
                1 => format!("-{word}"),
                2 => format!("or {word}"),
                3 => word.to_uppercase(),
                4 => word.chars().take(1 + self.below(4)).collect(),
                5 => format!("-\"{} {word}\"", self.pick(words)),
                _ => word.to_owned(),
            });
        }
        parts.join(" ")
    }
}

fn notes(name: &str, language: Language) -> Entity {
    let entity =
        Entity::new(name).public().max_list_limit(200).field(Field::string("title")).field(Field::text("body"));
    entity.field(Field::int("shelf")).search(language, [("body", 1), ("title", 4)])
}

#[tokio::test]
async fn both_engines_find_and_rank_what_the_evaluator_does() {
    let mut numbers = Numbers(20_260_102);
    let mut found = 0;
    let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for TestDb { db, name, .. } in &engines().await {
        let mut builder = Entities::builder(db.clone(), Ambient::system()).users(Users::Elsewhere);
        for (language, _) in CORPUS {
            builder = builder.declare(notes(&format!("{language}_notes"), language.parse().unwrap()));
        }
        let entities = builder.build().await.unwrap();
        let call = Call::from(&Identity::Anonymous);
        for (language, corpus) in CORPUS {
            numbers.0 = 7;
            let language: Language = language.parse().unwrap();
            let table = entities.table(&format!("{language}_notes")).unwrap();
            let words: Vec<&str> = corpus.split([' ', '\n']).collect();
            let mut records: BTreeMap<String, (String, String)> = BTreeMap::new();
            for number in 0..60_usize {
                let (title, body) = (numbers.text(&words, 5), numbers.text(&words, 24));
                let null = number % 10 == 0;
                let body_of = json!({ "title": title, "body": if null { Json::Null } else { body.clone().into() }, "shelf": number });
                let record = table.create(&call, body_of.to_string().as_bytes()).await.unwrap();
                let id = record.id().to_owned();
                let mut stored = (title, if null { String::new() } else { body });
                match number % 7 {
                    3 => {
                        stored.0 = numbers.text(&words, 5);
                        table
                            .update(&call, &id, json!({ "title": stored.0 }).to_string().as_bytes(), None)
                            .await
                            .unwrap();
                    }
                    5 => {
                        table.delete(&call, &id, None).await.unwrap();
                        continue;
                    }
                    _ => {}
                }
                records.insert(id, stored);
            }
            let indexed = records
                .iter()
                .map(|(id, (title, body))| (id.clone(), Indexed::of(body, language), Indexed::of(title, language)));
            let indexed: Vec<_> = indexed.collect();
            for _ in 0..120 {
                let text = numbers.query(&words);
                let prefix = numbers.below(2) == 0;
                let asked = ListQuery::new().search(&text).limit(200).condition("prefix", prefix);
                let listed = table.list(&call, &asked).await;
                let Ok(query) = Query::read(&text, language, prefix) else {
                    assert!(listed.is_err(), "{name}: {text}");
                    continue;
                };
                let matching = indexed.iter().filter(|(_, body, title)| matches(&query, &[body, title]));
                let ranked = matching.map(|(id, body, title)| (-rank(&query, &[(body, 1), (title, 4)]), id.clone()));
                let mut expected: Vec<_> = ranked.collect();
                expected.sort_unstable();
                let expected: Vec<String> = expected.into_iter().map(|(_, id)| id).collect();
                let records: Vec<Json> =
                    listed.unwrap_or_else(|error| panic!("{name}: {text}: {error}")).records().unwrap();
                let ids: Vec<_> = records.iter().map(|record| record["id"].as_str().unwrap()).collect();
                assert_eq!(ids, expected, "{name}: {language}: {text} (prefix: {prefix})");
                let shelves = records.iter().map(|record| record["shelf"].to_string()).collect::<Vec<_>>();
                let same = seen.entry(format!("{language} {text} {prefix}")).or_insert_with(|| shelves.clone());
                assert_eq!(*same, shelves, "{name}: {text}");
                found += ids.len();
            }
        }
    }
    assert!(found > 5_000, "{found}: the queries find too little to prove anything");
    assert_eq!(words::words("x", Language::SIMPLE).count(), 1);
}
