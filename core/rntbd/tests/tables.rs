//! The tables of tokens agree with themselves: ids, names, headers, and forms that fit the types.

use orrery_rntbd::tokens::{answer, context_answer, context_request, request};
use orrery_rntbd::{Form, Token, Type};
use std::collections::HashSet;

const TABLES: [(&str, &[Token]); 4] = [
    ("request", request::TABLE),
    ("answer", answer::TABLE),
    ("context_request", context_request::TABLE),
    ("context_answer", context_answer::TABLE),
];

#[test]
fn ids_ascend_and_names_and_headers_are_unique() {
    for (table, tokens) in TABLES {
        let ascends = tokens.windows(2).all(|pair| pair[0].id < pair[1].id);
        assert!(ascends, "{table}");
        let names: HashSet<_> = tokens.iter().map(|token| token.name).collect();
        assert_eq!(names.len(), tokens.len(), "{table}");
        let headers: Vec<_> = tokens.iter().filter_map(|token| token.header).collect();
        let names: HashSet<_> = headers.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), headers.len(), "{table}");
        for name in names {
            assert_eq!(name, name.to_ascii_lowercase(), "{table}");
        }
    }
}

#[test]
fn each_form_fits_the_type_of_its_token() {
    for (table, tokens) in TABLES {
        for token in tokens {
            let Some((_, form)) = token.header else {
                continue;
            };
            let kind = token.kind;
            let fits = match form {
                Form::Text | Form::AfterRange => kind.is_text(),
                Form::Utf8 => kind.is_bytes(),
                Form::Number => kind.is_integer(),
                Form::Signed => kind == Type::ULong,
                Form::Decimal => kind == Type::Double,
                Form::Flag | Form::Words(_) | Form::Flags(_) => kind == Type::Byte,
                Form::Guid => kind == Type::Guid,
            };
            assert!(fits, "{table}: {}", token.name);
        }
    }
}

#[test]
fn numbers_and_words_of_a_form_are_unique() {
    for token in request::TABLE {
        let Some((_, Form::Words(words) | Form::Flags(words))) = token.header else {
            continue;
        };
        let numbers: HashSet<_> = words.iter().map(|(number, _)| number).collect();
        let texts: HashSet<_> = words.iter().map(|(_, word)| word).collect();
        assert_eq!(numbers.len(), words.len(), "{}", token.name);
        assert_eq!(texts.len(), words.len(), "{}", token.name);
        if let Some((_, Form::Flags(_))) = token.header {
            let one_bit = words.iter().all(|(bit, _)| bit.count_ones() == 1);
            assert!(one_bit, "{}", token.name);
        }
    }
}

#[test]
fn a_constant_is_the_row_of_its_table() {
    for (token, table) in [
        (request::SESSION_TOKEN, request::TABLE),
        (answer::SESSION_TOKEN, answer::TABLE),
        (context_request::USER_AGENT, context_request::TABLE),
        (context_answer::SERVER_AGENT, context_answer::TABLE),
    ] {
        assert!(table.contains(&token), "{}", token.name);
    }
    let session = |token: Token| (token.id, token.kind);
    assert_eq!(session(request::SESSION_TOKEN), (0x05, Type::String));
    assert_eq!(session(answer::SESSION_TOKEN), (0x3E, Type::String));
}

#[test]
fn types_have_the_numbers_of_the_wire() {
    for number in 0..=0xE {
        assert_eq!(Type::from_wire(number).map(Type::wire), Some(number));
    }
    assert_eq!(Type::from_wire(0xF), None);
    assert_eq!(Type::from_wire(0xFF), None);
    assert_eq!(Type::Bytes.wire(), 0xB);
    assert_eq!(Type::Double.wire(), 0xE);
}
