//! The names of the arguments of every function, for editors and documents.
//!
//! A name in brackets may be left out; one with dots may be repeated. A test compares the list with
//! the numbers of arguments in the tables.

/// Each function by its first name, with the names of its arguments.
#[rustfmt::skip] // one function on one line
const SIGNATURES: &[(&str, &str)] = &[
    // Numbers.
    ("ABS", "number"),
    ("CEILING", "number"),
    ("FLOOR", "number"),
    ("SIGN", "number"),
    ("SQRT", "number"),
    ("SQUARE", "number"),
    ("EXP", "number"),
    ("LOG10", "number"),
    ("TRUNC", "number"),
    ("SIN", "radians"),
    ("COS", "radians"),
    ("TAN", "radians"),
    ("COT", "radians"),
    ("ASIN", "number"),
    ("ACOS", "number"),
    ("ATAN", "number"),
    ("DEGREES", "radians"),
    ("RADIANS", "degrees"),
    ("ROUND", "number [digits]"),
    ("POWER", "base exponent"),
    ("LOG", "number [base]"),
    ("ATN2", "y x"),
    ("PI", ""),
    ("NUMBERBIN", "number [size]"),
    ("RAND", ""),
    // Integers of 64 bits.
    ("INTADD", "first second"),
    ("INTSUB", "first second"),
    ("INTMUL", "first second"),
    ("INTDIV", "dividend divisor"),
    ("INTMOD", "dividend divisor"),
    ("INTBITAND", "first second"),
    ("INTBITOR", "first second"),
    ("INTBITXOR", "first second"),
    ("INTBITLEFTSHIFT", "number bits"),
    ("INTBITRIGHTSHIFT", "number bits"),
    ("INTBITNOT", "number"),
    // Texts.
    ("CONCAT", "first second..."),
    ("CONTAINS", "text part [ignoreCase]"),
    ("STARTSWITH", "text prefix [ignoreCase]"),
    ("ENDSWITH", "text suffix [ignoreCase]"),
    ("STRINGEQUALS", "first second [ignoreCase]"),
    ("CONTAINS_ALL_CI", "text part..."),
    ("CONTAINS_ALL_CS", "text part..."),
    ("CONTAINS_ANY_CI", "text part..."),
    ("CONTAINS_ANY_CS", "text part..."),
    ("INDEX_OF", "text part [start]"),
    ("LASTINDEXOF", "text part [start]"),
    ("LENGTH", "text"),
    ("LOWER", "text"),
    ("UPPER", "text"),
    ("LEFT", "text length"),
    ("RIGHT", "text length"),
    ("SUBSTRING", "text start length"),
    ("LTRIM", "text [characters]"),
    ("RTRIM", "text [characters]"),
    ("TRIM", "text [characters]"),
    ("REPLACE", "text find with"),
    ("REPLICATE", "text times"),
    ("REVERSE", "text"),
    ("STRINGJOIN", "texts separator"),
    ("STRINGSPLIT", "text separator"),
    ("SUBSTRINGAFTER", "text part"),
    ("SUBSTRINGBEFORE", "text part"),
    ("LASTSUBSTRINGAFTER", "text part"),
    ("LASTSUBSTRINGBEFORE", "text part"),
    ("TOSTRING", "value"),
    ("STRINGTONUMBER", "text"),
    ("STRINGTOBOOLEAN", "text"),
    ("STRINGTONULL", "text"),
    ("STRINGTOARRAY", "text"),
    ("STRINGTOOBJECT", "text"),
    ("REGEXMATCH", "text pattern [flags]"),
    ("REGEXEXTRACT", "text pattern [flags]"),
    ("REGEXEXTRACTALL", "text pattern [flags]"),
    // Arrays and sets.
    ("ARRAY_CONCAT", "first second..."),
    ("ARRAY_CONTAINS", "array value [partial]"),
    ("ARRAY_CONTAINS_ANY", "array value..."),
    ("ARRAY_CONTAINS_ALL", "array value..."),
    ("ARRAY_LENGTH", "array"),
    ("ARRAY_SLICE", "array start [length]"),
    ("ARRAY_SUM", "array"),
    ("ARRAY_AVG", "array"),
    ("ARRAY_MEDIAN", "array"),
    ("ARRAY_MIN", "array"),
    ("ARRAY_MAX", "array"),
    ("SETINTERSECT", "first second"),
    ("SETUNION", "first second"),
    ("SETDIFFERENCE", "first second"),
    ("SETEQUAL", "first second"),
    // Objects, choice and aggregates.
    ("OBJECTTOARRAY", "object [keyName] [valueName]"),
    ("DOCUMENTID", "item"),
    ("IIF", "condition then else"),
    ("CHOOSE", "number value..."),
    ("COUNT", "value"),
    ("COUNTIF", "condition"),
    ("SUM", "number"),
    ("AVG", "number"),
    ("MIN", "value"),
    ("MAX", "value"),
    ("MAKELIST", "value"),
    ("MAKESET", "value"),
    // Types.
    ("IS_ARRAY", "value"),
    ("IS_BOOL", "value"),
    ("IS_NULL", "value"),
    ("IS_NUMBER", "value"),
    ("IS_OBJECT", "value"),
    ("IS_STRING", "value"),
    ("IS_DEFINED", "value"),
    ("IS_PRIMITIVE", "value"),
    ("IS_FINITE_NUMBER", "value"),
    ("IS_INTEGER", "value"),
    ("IS_DATETIME", "value"),
    // Dates.
    ("GETCURRENTDATETIME", ""),
    ("GETCURRENTTIMESTAMP", ""),
    ("GETCURRENTTICKS", ""),
    ("GETCURRENTDATETIMESTATIC", ""),
    ("GETCURRENTTIMESTAMPSTATIC", ""),
    ("GETCURRENTTICKSSTATIC", ""),
    ("NOW", "[part] [count]"),
    ("AGO", "part count"),
    ("DATETIMEADD", "part count dateTime"),
    ("DATETIMEDIFF", "part from to"),
    ("DATETIMEPART", "part dateTime"),
    ("DATETIMEBIN", "dateTime part [size] [origin]"),
    ("DATETIMEFROMPARTS", "year month day [hour] [minute] [second] [ticks]"),
    ("DATETIMETOTICKS", "dateTime"),
    ("DATETIMETOTIMESTAMP", "dateTime"),
    ("TICKSTODATETIME", "ticks"),
    ("TIMESTAMPTODATETIME", "milliseconds"),
    ("DATETIMEFORMAT", "dateTime format"),
    ("YEAR", "dateTime"),
    ("MONTH", "dateTime"),
    ("DAY", "dateTime"),
    // Spatial functions and search.
    ("ST_DISTANCE", "first second"),
    ("ST_AREA", "geometry"),
    ("ST_WITHIN", "first second"),
    ("ST_INTERSECTS", "first second"),
    ("ST_ISVALID", "geometry"),
    ("ST_ISVALIDDETAILED", "geometry"),
    ("VECTORDISTANCE", "first second [exact] [options]"),
    ("FULLTEXTCONTAINS", "path phrase"),
    ("FULLTEXTCONTAINSALL", "path phrase..."),
    ("FULLTEXTCONTAINSANY", "path phrase..."),
    ("FULLTEXTSCORE", "path phrase..."),
    ("RRF", "score otherScore..."),
];

/// Returns the names of the arguments of a function, by its first name.
pub(crate) fn of(name: &str) -> Option<impl Iterator<Item = &'static str>> {
    let found = SIGNATURES.iter().find(|(known, _)| *known == name);
    found.map(|(_, arguments)| arguments.split_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use super::super::{ANY, Implementation, TABLES};
    use super::*;

    #[test]
    fn every_function_that_is_offered_has_a_signature_with_its_number_of_arguments() {
        let mut known = 0;
        for function in TABLES.iter().flat_map(|table| table.iter()) {
            let name = function.names[0];
            let is_refused = matches!(function.run, Implementation::Refused(_));
            if is_refused || name.starts_with('_') {
                continue;
            }
            known += 1;
            let arguments: Vec<&str> = of(name).expect(name).collect();
            let optional = arguments.iter().filter(|a| a.starts_with('[')).count();
            let has_rest = arguments.last().is_some_and(|a| a.ends_with("..."));
            let (min, max) = function.arity;
            assert_eq!(has_rest, max == ANY, "{name}");
            assert_eq!(
                arguments.len() - optional,
                min.max(usize::from(has_rest)),
                "{name}"
            );
            if !has_rest {
                assert_eq!(arguments.len(), max, "{name}");
            }
        }
        assert_eq!(known, SIGNATURES.len());
    }
}
