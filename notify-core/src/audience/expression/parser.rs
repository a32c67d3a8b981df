//! Reads expressions by recursive descent.

use super::hint;
use super::lexer::{Fault, Lexer, Token};
use super::{Audience, EXPRESSION_CHARS_MAX, Field, NESTING_MAX, Test, spelling};
use crate::attribute::{ATTRIBUTE_NAME_RULE, is_attribute_name};
use crate::audience::json::{too_deep, too_many};
use crate::audience::{
    ATTRIBUTE_OPERATORS, CONDITION_LEVELS_MAX, CONDITION_VALUES_MAX, CONDITIONS_MAX,
};
use crate::notification::parse_local_time;
use crate::violations::{ROOT, Validator, nearest_name};
use crate::{AttributeValue, WITHIN_DAYS_MAX};

pub(super) fn parse(expression: &str) -> Result<Audience, Fault> {
    if expression.chars().nth(EXPRESSION_CHARS_MAX).is_some() {
        let message = format!("an expression has at most {EXPRESSION_CHARS_MAX} characters");
        return Err(Fault::new(EXPRESSION_CHARS_MAX, message));
    }
    let mut lexer = Lexer::new(expression);
    let (token, position) = lexer.next()?;
    let mut parser = Parser { lexer, token, position, nesting: 0, conditions: 0 };
    let whole = parser.any()?;
    if parser.token != Token::End {
        return parser.fail("expected `and`, `or` or the end");
    }
    Ok(whole.audience)
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    /// The next token, and its position.
    token: Token,
    position: usize,
    /// Number of parentheses and `not` around the next token.
    nesting: usize,
    conditions: usize,
}

/// A condition that has been read.
struct Parsed {
    audience: Audience,
    levels: usize,
    /// The position of its deepest condition.
    deepest: usize,
}

/// What a test is about.
#[derive(Clone, Copy)]
enum Operand<'n> {
    Attribute(&'n str),
    Field(Field),
}

impl Operand<'_> {
    /// The field that an attribute probably means: every other name is that of an attribute.
    fn field_meant(&self) -> Option<&'static str> {
        match self {
            Self::Attribute(name) => nearest_name(name, &Field::ALL.map(Field::as_str)),
            Self::Field(_) => None,
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Attribute(name) => name,
            Self::Field(field) => field.as_str(),
        }
    }

    fn operators(&self) -> &'static [&'static str] {
        match self {
            Self::Attribute(_) => ATTRIBUTE_OPERATORS,
            Self::Field(field) => field.operators(),
        }
    }

    fn takes(&self, operator: &str) -> bool {
        self.operators().contains(&operator)
    }

    /// The operators, as they are written in expressions.
    fn spellings(&self) -> String {
        let spellings = self.operators().iter().map(|operator| match *operator {
            "exists" => "`exists`, `is absent`".to_owned(),
            operator => format!("`{}`", spelling(operator)),
        });
        spellings.collect::<Vec<_>>().join(", ")
    }

    /// The value that a token stands for.
    fn read(&self, token: &Token) -> Option<AttributeValue> {
        match (token, self) {
            (Token::Quoted(text), _) => Some(AttributeValue::Text(text.clone())),
            (Token::Word(word), Self::Attribute(_)) => Some(attribute_value(word)),
            (Token::Word(word), Self::Field(field)) => Some(field_value(*field, word)),
            _ => None,
        }
    }

    fn condition(&self, test: Test) -> Audience {
        match self {
            Self::Attribute(name) => Audience::Attribute { name: (*name).to_owned(), test },
            Self::Field(field) => Audience::Field { field: *field, test },
        }
    }
}

impl Parser<'_> {
    fn fail<T>(&self, message: impl Into<String>) -> Result<T, Fault> {
        Err(Fault::new(self.position, message))
    }

    /// Takes the next token.
    fn advance(&mut self) -> Result<Token, Fault> {
        let (token, position) = self.lexer.next()?;
        self.position = position;
        Ok(std::mem::replace(&mut self.token, token))
    }

    /// Takes the next token if it is this keyword.
    fn take_keyword(&mut self, keyword: &str) -> Result<bool, Fault> {
        let is_next = self.token.is_keyword(keyword);
        if is_next {
            self.advance()?;
        }
        Ok(is_next)
    }

    fn expect(&mut self, token: &Token, message: &str) -> Result<(), Fault> {
        if self.token == *token {
            self.advance()?;
            return Ok(());
        }
        self.fail(message)
    }

    /// Counts a condition that begins at `position`.
    fn count(&mut self, position: usize) -> Result<(), Fault> {
        self.conditions += 1;
        if self.conditions > CONDITIONS_MAX {
            return Err(Fault::new(position, too_many()));
        }
        Ok(())
    }

    fn any(&mut self) -> Result<Parsed, Fault> {
        self.list("or", Self::all, Audience::Any)
    }

    fn all(&mut self) -> Result<Parsed, Fault> {
        self.list("and", Self::one, Audience::All)
    }

    /// Reads conditions that are separated by a keyword. A single one is not a list.
    fn list(
        &mut self,
        separator: &str,
        read: fn(&mut Self) -> Result<Parsed, Fault>,
        make: fn(Vec<Audience>) -> Audience,
    ) -> Result<Parsed, Fault> {
        let start = self.position;
        let first = read(self)?;
        if !self.token.is_keyword(separator) {
            return Ok(first);
        }
        self.count(start)?;
        let mut parts = vec![first];
        while self.take_keyword(separator)? {
            parts.push(read(self)?);
        }
        join(parts, make)
    }

    fn one(&mut self) -> Result<Parsed, Fault> {
        let start = self.position;
        if self.nesting == NESTING_MAX {
            return self.fail("too many nested parentheses");
        }
        self.nesting += 1;
        let parsed = if self.token == Token::Open {
            self.in_parentheses()
        } else if self.take_keyword("not")? {
            self.negated(start)
        } else if self.take_keyword("all")? {
            self.explicit_list(start, Audience::All)
        } else if self.take_keyword("any")? {
            self.explicit_list(start, Audience::Any)
        } else {
            self.count(start)?;
            let audience = self.condition()?;
            Ok(Parsed { audience, levels: 1, deepest: start })
        };
        self.nesting -= 1;
        parsed
    }

    fn in_parentheses(&mut self) -> Result<Parsed, Fault> {
        self.advance()?;
        let parsed = self.any()?;
        self.expect(&Token::Close, "expected `and`, `or` or `)`")?;
        Ok(parsed)
    }

    fn negated(&mut self, start: usize) -> Result<Parsed, Fault> {
        self.count(start)?;
        let parsed = self.one()?;
        join(vec![parsed], |mut conditions| {
            Audience::Not(Box::new(conditions.pop().expect("there is one condition")))
        })
    }

    fn explicit_list(
        &mut self,
        start: usize,
        make: fn(Vec<Audience>) -> Audience,
    ) -> Result<Parsed, Fault> {
        self.count(start)?;
        self.expect(&Token::Open, "expected `(`")?;
        let mut parts = vec![self.any()?];
        while self.token == Token::Comma {
            self.advance()?;
            parts.push(self.any()?);
        }
        self.expect(&Token::Close, "expected `and`, `or`, `,` or `)`")?;
        join(parts, make)
    }

    fn condition(&mut self) -> Result<Audience, Fault> {
        if self.take_keyword("tag")? {
            return self.named("`tag` takes only `=`", Audience::Tag);
        }
        if self.take_keyword("segment")? {
            return self.named("`segment` takes only `=`", Audience::Segment);
        }
        if self.take_keyword("attribute")? {
            return self.attribute("expected the name of an attribute");
        }
        if self.token.is_symbol("!") {
            return self.fail("unexpected character; write `not`");
        }
        let Token::Word(word) = &self.token else { return self.fail(EXPECTED_CONDITION) };
        if let Ok(field) = word.to_ascii_lowercase().parse() {
            self.advance()?;
            let operand = Operand::Field(field);
            return Ok(operand.condition(self.test(operand)?));
        }
        if super::is_reserved(word) {
            return self.fail(EXPECTED_CONDITION);
        }
        self.attribute(EXPECTED_CONDITION)
    }

    /// Reads `=` and the name of a tag or a segment.
    fn named(&mut self, takes_only: &str, make: fn(String) -> Audience) -> Result<Audience, Fault> {
        if !self.token.is_symbol("=") {
            let make = |test| match test {
                Test::Is(AttributeValue::Text(name)) => Some(make(name)),
                _ => None,
            };
            return self.fail(with_hint(takes_only, self.hint(name_of, make)));
        }
        self.advance()?;
        let position = self.position;
        let Some(AttributeValue::Text(name)) = name_of(&self.advance()?) else {
            return Err(Fault::new(position, EXPECTED_VALUE));
        };
        if name.is_empty() {
            return Err(Fault::new(position, "must not be empty"));
        }
        let condition = make(name);
        check(&condition, position)?;
        Ok(condition)
    }

    fn attribute(&mut self, expected: &str) -> Result<Audience, Fault> {
        let position = self.position;
        let Token::Word(name) = self.advance()? else { return Err(Fault::new(position, expected)) };
        if !is_attribute_name(&name) {
            let message = format!("the name of an attribute {ATTRIBUTE_NAME_RULE}");
            return Err(Fault::new(position, message));
        }
        let operand = Operand::Attribute(&name);
        Ok(operand.condition(self.test(operand)?))
    }

    /// Reads an operator and what follows it.
    fn test(&mut self, operand: Operand<'_>) -> Result<Test, Fault> {
        let operator = self.operator(operand)?;
        if !operand.takes(operator) {
            let meant = operand.field_meant();
            let meant = meant.map(|field| format!("; did you mean `{field}`?")).unwrap_or_default();
            let (name, spellings) = (operand.name(), operand.spellings());
            return self.fail(format!("`{name}` takes only {spellings}{meant}"));
        }
        let is_exists = self.token.is_keyword("exists");
        let hint = self.token.is_keyword("is").then(|| self.operand_hint(operand)).flatten();
        self.advance()?;
        match operator {
            "is" => self.value(operand, Test::Is).map(Test::Is),
            "in" => self.values(operand).map(Test::In),
            "exists" if is_exists => Ok(Test::Exists(true)),
            "exists" => {
                if self.take_keyword("absent")? {
                    return Ok(Test::Exists(false));
                }
                self.fail(with_hint("expected `absent`", hint))
            }
            "at_least" => self.value(operand, Test::AtLeast).map(Test::AtLeast),
            "below" => self.value(operand, Test::Below).map(Test::Below),
            _ => self.days().map(Test::WithinDays),
        }
    }

    /// The JSON name of the next token, which must be an operator.
    fn operator(&self, operand: Operand<'_>) -> Result<&'static str, Fault> {
        let operators = crate::audience::OPERATORS;
        let is_next = |operator: &&str| {
            let spelling = spelling(operator);
            self.token.is_symbol(spelling) || self.token.is_keyword(spelling)
        };
        if let Some(operator) = operators.into_iter().find(is_next) {
            return Ok(operator);
        }
        if self.token.is_keyword("is") {
            return Ok("exists");
        }
        let (name, spellings) = (operand.name(), operand.spellings());
        match &self.token {
            Token::Word(word) if word.eq_ignore_ascii_case("not") => {
                self.fail(format!("unknown operator; `not` stands before `{name}`"))
            }
            Token::Symbol(_) | Token::Word(_) => match self.operand_hint(operand) {
                None => self.fail(format!("unknown operator; `{name}` takes {spellings}")),
                hint => self.fail(with_hint("unknown operator", hint)),
            },
            _ => self.fail(format!("expected an operator: {spellings}")),
        }
    }

    /// What to write instead of the next token, if it is an operator of another language, and the value after
    /// it. The parameters are those of [`hint::instead`].
    fn hint(
        &self,
        read: impl Fn(&Token) -> Option<AttributeValue>,
        make: impl Fn(Test) -> Option<Audience>,
    ) -> Option<String> {
        let (Token::Symbol(operator) | Token::Word(operator)) = &self.token else { return None };
        let mut lexer = self.lexer.clone();
        let mut next = || lexer.next().ok().map(|(token, _)| token);
        let value = next()?;
        if self.token.is_keyword("is") && value.is_keyword("not") {
            return hint::instead("is not", &next()?, read, make);
        }
        hint::instead(operator, &value, read, make)
    }

    fn operand_hint(&self, operand: Operand<'_>) -> Option<String> {
        let make = |test: Test| operand.takes(test.operator()).then(|| operand.condition(test));
        self.hint(|token| operand.read(token), make)
    }

    fn values(&mut self, operand: Operand<'_>) -> Result<Vec<AttributeValue>, Fault> {
        self.expect(&Token::Open, "expected `(`")?;
        let mut values = Vec::new();
        loop {
            if values.len() == CONDITION_VALUES_MAX {
                return self.fail(format!("must hold at most {CONDITION_VALUES_MAX} values"));
            }
            values.push(self.value(operand, |value| Test::In(vec![value]))?);
            if self.token != Token::Comma {
                break;
            }
            self.advance()?;
        }
        self.expect(&Token::Close, "expected `,` or `)`")?;
        Ok(values)
    }

    /// Reads a value. It must be a valid operand of the operator, with which `test` combines it.
    fn value(
        &mut self,
        operand: Operand<'_>,
        test: fn(AttributeValue) -> Test,
    ) -> Result<AttributeValue, Fault> {
        let position = self.position;
        let Some(value) = operand.read(&self.advance()?) else {
            return Err(Fault::new(position, EXPECTED_VALUE));
        };
        let is_time = matches!(operand, Operand::Field(Field::CreatedAt | Field::LastActiveAt));
        if is_time && !matches!(value, AttributeValue::Number(_)) {
            return Err(Fault::new(position, EXPECTED_TIME));
        }
        check(&operand.condition(test(value.clone())), position)?;
        Ok(value)
    }

    /// Reads a number of days and `days`.
    fn days(&mut self) -> Result<u32, Fault> {
        let message = format!("expected a number of days from 1 to {WITHIN_DAYS_MAX}");
        let Token::Word(word) = &self.token else { return self.fail(message) };
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        let days =
            word.parse().ok().filter(|days| is_number && (1..=WITHIN_DAYS_MAX).contains(days));
        let Some(days) = days else { return self.fail(message) };
        self.advance()?;
        if self.take_keyword("days")? || self.take_keyword("day")? {
            return Ok(days);
        }
        self.fail("expected `days`")
    }
}

const EXPECTED_CONDITION: &str = "expected a condition, such as `tag = vip`";
const EXPECTED_VALUE: &str = "expected a value";
const EXPECTED_TIME: &str =
    "expected unix milliseconds or a date, such as 2026-11-01 or 2026-11-01T10:00Z";

/// The message, with what to write instead.
fn with_hint(message: &str, hint: Option<String>) -> String {
    hint.map_or_else(|| message.to_owned(), |hint| format!("{message}; write `{hint}`"))
}

/// The name of a tag or a segment, as the value of an operator.
fn name_of(token: &Token) -> Option<AttributeValue> {
    match token {
        Token::Word(name) | Token::Quoted(name) => Some(AttributeValue::Text(name.clone())),
        _ => None,
    }
}

/// Combines the conditions into one.
fn join(parts: Vec<Parsed>, make: impl Fn(Vec<Audience>) -> Audience) -> Result<Parsed, Fault> {
    let deepest = parts.iter().max_by_key(|part| part.levels).expect("there is a part");
    let (levels, deepest) = (deepest.levels + 1, deepest.deepest);
    if levels > CONDITION_LEVELS_MAX {
        return Err(Fault::new(deepest, too_deep()));
    }
    let audience = make(parts.into_iter().map(|part| part.audience).collect());
    Ok(Parsed { audience, levels, deepest })
}

/// Checks a single condition by the rules of requests.
pub(super) fn check(condition: &Audience, position: usize) -> Result<(), Fault> {
    let mut rules = Validator::default();
    condition.check_unexpanded(&ROOT, &mut rules);
    rules.first_rule().map_or(Ok(()), |rule| Err(Fault::new(position, rule)))
}

/// The value of an attribute that is written without quotes.
fn attribute_value(word: &str) -> AttributeValue {
    if word.eq_ignore_ascii_case("true") || word.eq_ignore_ascii_case("false") {
        return AttributeValue::Bool(word.eq_ignore_ascii_case("true"));
    }
    number(word).unwrap_or_else(|| AttributeValue::Text(word.to_owned()))
}

/// The value of a field that is written without quotes.
fn field_value(field: Field, word: &str) -> AttributeValue {
    let number = match field {
        Field::Timezone => number(word),
        Field::CreatedAt | Field::LastActiveAt => number(word).or_else(|| date(word)),
        Field::Platform
        | Field::Language
        | Field::Country
        | Field::AppVersion
        | Field::OsVersion
        | Field::User => None,
    };
    number.unwrap_or_else(|| AttributeValue::Text(word.to_owned()))
}

/// A number as JSON writes it (RFC 8259, section 6).
fn number(word: &str) -> Option<AttributeValue> {
    let is_number = serde_json::from_str::<serde_json::Number>(word).is_ok();
    is_number.then(|| word.parse().ok().map(AttributeValue::Number))?
}

/// `YYYY-MM-DD`, `YYYY-MM-DDTHH:MMZ` or `YYYY-MM-DDTHH:MM:SSZ`, as unix milliseconds.
fn date(word: &str) -> Option<AttributeValue> {
    let (minute, seconds) = match (word.strip_suffix('Z'), word.len()) {
        (None, 10) => (format!("{word}T00:00"), 0),
        (Some(minute), 17) => (minute.to_owned(), 0),
        (Some(second), 20) => {
            let (minute, seconds) = second.split_at_checked(16)?;
            let seconds = seconds.strip_prefix(':')?;
            let is_number = seconds.bytes().all(|byte| byte.is_ascii_digit());
            let seconds = seconds.parse().ok().filter(|seconds| is_number && *seconds < 60)?;
            (minute.to_owned(), seconds)
        }
        _ => return None,
    };
    let start = parse_local_time(&minute)?;
    #[expect(clippy::cast_precision_loss, reason = "dates have at most 15 digits")]
    let ms = (start.0 + i64::from(seconds) * 1_000) as f64;
    Some(AttributeValue::Number(ms))
}
