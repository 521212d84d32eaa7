use gatewright_entities::Action;
use gatewright_entities::hooks::Object;
use gatewright_http::{FieldError, Problem};
use http::StatusCode;
use serde_json::Value;

/// The most characters of a text of a problem.
const LONGEST: usize = 1_000;
/// The most errors of fields.
const ERRORS: usize = 100;
/// The code of a problem that names none.
const CODE: &str = "refused";

/// Reads an answer: values, or the problem for the caller. The error says what is broken, and nothing of the answer.
pub(super) fn read(action: Action, status: StatusCode, body: &[u8]) -> Result<Result<Object, Problem>, String> {
    if status.is_success() {
        return values(action, body).map(Ok);
    }
    if status.is_client_error() {
        return problem(status, body)
            .map(Err)
            .ok_or_else(|| format!("an answer {} that is no problem", status.as_u16()));
    }
    Err(format!("the hook answered {}", status.as_u16()))
}

/// `{"values":{…}}`. Without a body, nothing is changed.
fn values(action: Action, body: &[u8]) -> Result<Object, String> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Object::new());
    }
    let Ok(Value::Object(mut answer)) = serde_json::from_slice(body) else {
        return Err("the answer is no JSON object".to_owned());
    };
    match answer.remove("values") {
        Some(Value::Object(values)) if action != Action::Delete || values.is_empty() => Ok(values),
        Some(Value::Object(_)) => Err("a deletion has no values".to_owned()),
        Some(_) => Err("`values` of the answer is no object".to_owned()),
        None if answer.is_empty() => Ok(Object::new()),
        None => Err("the answer has no `values`".to_owned()),
    }
}

/// A problem of RFC 9457, with `code` and `errors` as this service has them.
fn problem(status: StatusCode, body: &[u8]) -> Option<Problem> {
    let Ok(Value::Object(answer)) = serde_json::from_slice(body) else { return None };
    let text = |key: &str| answer.get(key).and_then(Value::as_str).map(shortened);
    let errors = match answer.get("errors") {
        Some(Value::Array(errors)) => errors.iter().take(ERRORS).filter_map(error).collect(),
        _ => Vec::new(),
    };
    let (detail, title) = (text("detail"), text("title"));
    if detail.is_none() && title.is_none() && text("code").is_none() && errors.is_empty() {
        return None;
    }
    let code = text("code").filter(|code| is_code(code)).unwrap_or_else(|| CODE.to_owned());
    let detail = detail.or(title).unwrap_or_else(|| "the write was refused".to_owned());
    let problem = Problem::new(status, code, detail);
    Some(if errors.is_empty() { problem } else { problem.with_fields(errors) })
}

fn error(error: &Value) -> Option<FieldError> {
    let text = |key: &str| error.get(key).and_then(Value::as_str).map(shortened);
    let code = text("code").filter(|code| is_code(code)).unwrap_or_else(|| CODE.to_owned());
    Some(FieldError { field: text("field").map(Into::into), code: code.into(), message: text("message")?.into() })
}

fn is_code(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

fn shortened(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(status: u16, body: &str) -> Result<Result<Object, Problem>, String> {
        read(Action::Update, StatusCode::from_u16(status).unwrap(), body.as_bytes())
    }

    #[test]
    fn values_are_read_and_everything_else_is_broken() {
        let read = answer(200, r#"{"values":{"price":5}}"#).unwrap().unwrap();
        assert_eq!(Value::from(read), json!({"price": 5}));
        for body in ["", " \n", "{}", r#"{"values":{}}"#] {
            assert!(answer(200, body).unwrap().unwrap().is_empty(), "{body}");
        }
        assert!(answer(204, "").unwrap().unwrap().is_empty());
        for body in ["[]", "null", "x", r#"{"value":{}}"#, r#"{"values":[]}"#, r#"{"values":null}"#, "{\"values\":{}"] {
            assert!(answer(200, body).is_err(), "{body}");
        }
        for status in [300, 302, 304, 500, 503] {
            assert!(answer(status, r#"{"values":{"price":5},"detail":"x"}"#).is_err(), "{status}");
        }
        let delete = |body: &str| super::read(Action::Delete, StatusCode::OK, body.as_bytes());
        assert!(delete("{}").unwrap().unwrap().is_empty());
        assert!(delete(r#"{"values":{"price":5}}"#).is_err());
    }

    #[test]
    fn a_problem_is_passed_on_and_a_page_is_broken() {
        let body = r#"{"code":"out_of_stock","detail":"nothing left","errors":[{"field":"count","code":"max","message":"is too many"},{"x":1}]}"#;
        let problem = answer(409, body).unwrap().unwrap_err();
        assert_eq!(
            (problem.status().as_u16(), problem.code(), problem.detail()),
            (409, "out_of_stock", "nothing left")
        );
        assert_eq!(problem.errors().len(), 1);
        let named = answer(422, r#"{"title":"No","code":"Not A Code\n"}"#).unwrap().unwrap_err();
        assert_eq!((named.code(), named.detail()), ("refused", "No"));
        for body in ["<html>", "", "{}", "[]", r#"{"message":"x"}"#] {
            assert!(answer(404, body).is_err(), "{body}");
        }
        let long = format!(r#"{{"detail":"{}"}}"#, "x".repeat(5_000));
        assert_eq!(answer(400, &long).unwrap().unwrap_err().detail().len(), LONGEST);
    }
}
