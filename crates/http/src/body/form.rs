use std::borrow::Cow;

use percent_encoding::percent_decode;

use super::fields::Fields;
use crate::Problem;

/// The most pairs in one form.
pub(super) const MAX_FIELDS: usize = 256;

/// The pairs of an `application/x-www-form-urlencoded` body. 400 for text that is not UTF-8, which a lenient parser would
/// change in silence, and for more than [`MAX_FIELDS`].
pub(super) fn parse(bytes: &[u8]) -> Result<Fields, Problem> {
    let mut fields = Fields::default();
    let pairs = bytes.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
    for (index, pair) in pairs.enumerate() {
        if index == MAX_FIELDS {
            return Err(Problem::bad_request(format!("the form has more than {MAX_FIELDS} fields")));
        }
        let (name, value) = match pair.iter().position(|byte| *byte == b'=') {
            Some(equals) => (&pair[..equals], &pair[equals + 1..]),
            None => (pair, &[][..]),
        };
        fields.append(decode(name)?, decode(value)?)?;
    }
    Ok(fields)
}

fn decode(bytes: &[u8]) -> Result<String, Problem> {
    let spaced: Cow<'_, [u8]> = if bytes.contains(&b'+') {
        bytes.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect()
    } else {
        bytes.into()
    };
    let decoded = percent_decode(&spaced).decode_utf8();
    decoded.map(Cow::into_owned).map_err(|_| Problem::bad_request("the form is not valid UTF-8"))
}
