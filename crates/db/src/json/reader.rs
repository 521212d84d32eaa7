//! One pass over a text: it is checked and written in the canonical form.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write;

use super::number::is_plainly_canonical;
use super::{MAX_DEPTH, Number, Unstorable, Why};

/// The most characters of a key, and of a path, in a message.
const SHOWN_KEY: usize = 64;
const SHOWN_PATH: usize = 200;

/// The canonical form of a JSON text.
pub(super) fn canonical(text: &str) -> Result<String, Unstorable> {
    let mut reader = Reader::new(text, false);
    reader.run()?;
    Ok(reader.out)
}

/// Fails if the text has a number in another form, or if [`canonical`] refuses it.
pub(super) fn is_canonical(text: &str) -> Result<(), Unstorable> {
    Reader::new(text, true).run()
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    out: String,
    /// Whether a number in another form is an error.
    strict: bool,
    path: Vec<Step<'a>>,
}

enum Step<'a> {
    /// Not in a member of the object yet.
    Open,
    Index(usize),
    Key(Cow<'a, str>),
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, strict: bool) -> Self {
        Self { text, at: 0, out: String::with_capacity(text.len()), strict, path: Vec::new() }
    }

    fn run(&mut self) -> Result<(), Unstorable> {
        let read = self.value().and_then(|()| match self.peek() {
            None => Ok(()),
            Some(_) => Err(Why::Form),
        });
        read.map_err(|why| Unstorable { why, path: self.place() })
    }

    fn value(&mut self) -> Result<(), Why> {
        match self.peek() {
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'"') => self.string().map(|_| ()),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            _ => Err(Why::Form),
        }
    }

    fn object(&mut self) -> Result<(), Why> {
        self.open(Step::Open)?;
        let mut keys = HashSet::new();
        if !self.ends(b'}') {
            loop {
                if self.peek() != Some(b'"') {
                    return Err(Why::Form);
                }
                self.step(Step::Open);
                let key = self.string()?;
                self.step(Step::Key(key.clone()));
                if !keys.insert(key) {
                    return Err(Why::Repeated);
                }
                self.expect(b':')?;
                self.value()?;
                if self.ends(b'}') {
                    break;
                }
                self.expect(b',')?;
            }
        }
        self.path.pop();
        Ok(())
    }

    fn array(&mut self) -> Result<(), Why> {
        self.open(Step::Index(0))?;
        if !self.ends(b']') {
            for next in 1.. {
                self.value()?;
                if self.ends(b']') {
                    break;
                }
                self.expect(b',')?;
                self.step(Step::Index(next));
            }
        }
        self.path.pop();
        Ok(())
    }

    /// Writes a string with the fewest escapes that JSON needs, and returns its value.
    fn string(&mut self) -> Result<Cow<'a, str>, Why> {
        let start = self.at;
        let mut end = start + 1;
        let mut is_escaped = false;
        loop {
            let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
            end += self.text.as_bytes()[end..].iter().position(special).ok_or(Why::Form)?;
            match self.text.as_bytes()[end] {
                b'"' => break,
                b'\\' if end + 2 < self.text.len() => end += 2,
                _ => return Err(Why::Form),
            }
            is_escaped = true;
            if !self.text.is_char_boundary(end) {
                return Err(Why::Form);
            }
        }
        self.at = end + 1;
        let token = &self.text[start..self.at];
        if !is_escaped {
            self.out.push_str(token);
            return Ok(Cow::Borrowed(&token[1..token.len() - 1]));
        }
        let text: String = serde_json::from_str(token).map_err(|_| Why::Characters)?;
        if text.contains('\0') {
            return Err(Why::Characters);
        }
        self.out.push_str(&serde_json::Value::from(text.as_str()).to_string());
        Ok(Cow::Owned(text))
    }

    fn number(&mut self) -> Result<(), Why> {
        let rest = &self.text[self.at..];
        let belongs = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E');
        let token = &rest[..rest.as_bytes().iter().take_while(|byte| belongs(byte)).count()];
        let digits = token.strip_prefix('-').unwrap_or(token).as_bytes();
        if digits.first() == Some(&b'0') && digits.get(1).is_some_and(u8::is_ascii_digit) {
            return Err(Why::Form);
        }
        self.at += token.len();
        if is_plainly_canonical(token.as_bytes()) {
            self.out.push_str(token);
            return Ok(());
        }
        let start = self.out.len();
        let number = Number::read(token).map_err(Why::Number)?;
        let _infallible = write!(self.out, "{number}");
        if self.strict && &self.out[start..] != token { Err(Why::Spelling) } else { Ok(()) }
    }

    fn word(&mut self, word: &str) -> Result<(), Why> {
        if !self.text[self.at..].starts_with(word) {
            return Err(Why::Form);
        }
        self.at += word.len();
        self.out.push_str(word);
        Ok(())
    }

    /// The next byte that is not a space.
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = bytes.get(self.at) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    fn expect(&mut self, byte: u8) -> Result<(), Why> {
        if self.ends(byte) { Ok(()) } else { Err(Why::Form) }
    }

    /// Whether the next byte is this one, which is then written.
    fn ends(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        if is_next {
            self.at += 1;
            self.out.push(char::from(byte));
        }
        is_next
    }

    fn open(&mut self, first: Step<'a>) -> Result<(), Why> {
        if self.path.len() == MAX_DEPTH {
            return Err(Why::Depth);
        }
        self.out.push(char::from(self.text.as_bytes()[self.at]));
        self.at += 1;
        self.path.push(first);
        Ok(())
    }

    fn step(&mut self, step: Step<'a>) {
        if let Some(last) = self.path.last_mut() {
            *last = step;
        }
    }

    /// The path to the value that is being read.
    fn place(&self) -> String {
        let mut place = String::new();
        for step in &self.path {
            let shown = match step {
                Step::Open => String::new(),
                Step::Index(index) => format!("[{index}]"),
                Step::Key(key) if is_word(key) => format!(".{key}"),
                Step::Key(key) => {
                    let key: String = key.chars().take(SHOWN_KEY).collect();
                    format!("[{}]", serde_json::Value::from(key))
                }
            };
            if place.len() + shown.len() > SHOWN_PATH {
                place.push('…');
                break;
            }
            place.push_str(&shown);
        }
        place
    }
}

fn is_word(key: &str) -> bool {
    (1..=SHOWN_KEY).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Json, OutOfRange};
    use super::*;

    fn kept(text: &str) -> Result<String, Why> {
        canonical(text).map_err(|unstorable| unstorable.why)
    }

    #[test]
    fn spaces_are_removed_and_numbers_get_their_form() {
        for (written, expected) in [
            ("null", "null"),
            (" [ 1 , 2.50 ,\n\"a b\" ] ", "[1,2.5,\"a b\"]"),
            ("{ \"a\" : { \"b\" : [ true, false ] } , \"c\" : -1e3 }", "{\"a\":{\"b\":[true,false]},\"c\":-1000}"),
            ("-0", "0"),
            ("{\"1.0\":\"1.0\"}", "{\"1.0\":\"1.0\"}"),
            (r#""A\/é\n""#, r#""A/é\n""#),
            (r#"{"a":{"a":1},"b":[{"a":1},{"a":2}]}"#, r#"{"a":{"a":1},"b":[{"a":1},{"a":2}]}"#),
            (r#"["a","a",[],{}]"#, r#"["a","a",[],{}]"#),
            (r#"{"a":"a","b":"a"}"#, r#"{"a":"a","b":"a"}"#),
            (r#""\\\"""#, r#""\\\"""#),
            (r#""\\u0000""#, r#""\\u0000""#),
        ] {
            assert_eq!(kept(written).as_deref(), Ok(expected), "{written}");
        }
    }

    #[test]
    fn values_that_one_engine_would_refuse_or_change_are_refused_with_their_path() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(canonical(&deep(MAX_DEPTH)).is_ok());
        let number = Why::Number;
        for (bad, why, path) in [
            (r#""a\u0000b""#, Why::Characters, ""),
            (r#"{"a\u0000":1}"#, Why::Characters, ""),
            (r#"[1,"\ud800"]"#, Why::Characters, "[1]"),
            ("1e999", number(OutOfRange::Large), ""),
            ("[[],[0,1e-9999]]", number(OutOfRange::Small), "[1][1]"),
            (r#"{"a":{"b c":[18446744073709551617]}}"#, number(OutOfRange::Integer), r#".a["b c"][0]"#),
            (r#"{"a":1,"b":2,"a":3}"#, Why::Repeated, ".a"),
            (r#"{"a":1,"\u0061":3}"#, Why::Repeated, ".a"),
            (r#"[{"x":{"a":1,"a":3}}]"#, Why::Repeated, "[0].x.a"),
        ] {
            assert_eq!(canonical(bad), Err(Unstorable { why, path: path.to_owned() }), "{bad}");
        }
        assert_eq!(kept(&deep(MAX_DEPTH + 1)), Err(Why::Depth));
        let nested = format!("{}1e400{}", "{\"a key that is long\":".repeat(60), "}".repeat(60));
        assert!(canonical(&nested).unwrap_err().path.chars().count() <= SHOWN_PATH + 1);
    }

    #[test]
    fn text_that_is_not_json_is_refused() {
        for bad in [
            "",
            " ",
            "{",
            "[",
            "[1,]",
            "{\"a\"}",
            "{\"a\":}",
            "{a:1}",
            "[1 2]",
            "1 2",
            "nul",
            "truee",
            "01",
            "-",
            "+1",
            "1.",
            ".5",
            "1e",
            "--1",
            "\"",
            "\"a",
            "\"\\",
            "\"\\\"",
            "\"a\nb\"",
            "'a'",
            "NaN",
            "Infinity",
            "[1}",
            "{\"a\":1]",
            "{,}",
            "\"\\é\"",
        ] {
            assert!(canonical(bad).is_err(), "{bad}");
            assert!(serde_json::from_str::<serde_json::Value>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_number_in_another_form_is_found_in_stored_text() {
        assert_eq!(is_canonical(r#"{"b": [1, 0.5, "1.0"], "a": 1e+300}"#), Ok(()));
        for (stored, path) in [("[1.0]", "[0]"), ("{\"a\": -0}", ".a"), ("1e300", ""), ("[0, 1.50]", "[1]")] {
            assert_eq!(is_canonical(stored), Err(Unstorable { why: Why::Spelling, path: path.to_owned() }), "{stored}");
        }
    }

    fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            "[^\0]*".prop_map(|text: String| text.into()),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
                prop::collection::btree_map("[^\0]{0,6}", inner, 0..6)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_value_stays_the_same_and_its_form_too(json in any_json()) {
            let first = canonical(&serde_json::to_string_pretty(&json).unwrap()).unwrap();
            prop_assert_eq!(canonical(&first), Ok(first.clone()));
            prop_assert_eq!(is_canonical(&first), Ok(()));
            // Whoever builds the value and writes it again gets the same text.
            let built: serde_json::Value = serde_json::from_str(&first).unwrap();
            prop_assert_eq!(&built.to_string(), &first);
        }

        #[test]
        fn exactly_json_is_read(text in "[\\[\\]{},:\"\\\\ 01e.\\-+tnu]{0,12}") {
            if Json::read(&text).is_ok() {
                prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
            }
        }
    }
}
