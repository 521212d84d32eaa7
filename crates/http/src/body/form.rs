use std::borrow::Cow;

use percent_encoding::percent_decode;

use super::fields::Fields;
use crate::Problem;

/// The most pairs in one form.
pub(super) const MAX_FIELDS: usize = 256;

/// The pairs of an `application/x-www-form-urlencoded` text. Messages call it `what`: "form" or "query". 400 if it is not
/// UTF-8, which a lenient parser would change silently, or has more than [`MAX_FIELDS`].
pub(crate) fn parse(what: &str, bytes: &[u8]) -> Result<Fields, Problem> {
    let mut fields = Fields::default();
    let pairs = bytes.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
    for (index, pair) in pairs.enumerate() {
        if index == MAX_FIELDS {
            return Err(Problem::bad_request(format!("the {what} has more than {MAX_FIELDS} fields")));
        }
        let (name, value) = match pair.iter().position(|byte| *byte == b'=') {
            Some(equals) => (&pair[..equals], &pair[equals + 1..]),
            None => (pair, &[][..]),
        };
        let decode =
            |bytes| decode(bytes).ok_or_else(|| Problem::bad_request(format!("the {what} is not valid UTF-8")));
        fields.append(decode(name)?, decode(value)?)?;
    }
    Ok(fields)
}

fn decode(bytes: &[u8]) -> Option<String> {
    let spaced: Cow<'_, [u8]> = if bytes.contains(&b'+') {
        bytes.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect()
    } else {
        bytes.into()
    };
    percent_decode(&spaced).decode_utf8().ok().map(Cow::into_owned)
}
