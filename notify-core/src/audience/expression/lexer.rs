//! The tokens of an expression.

use std::iter::Peekable;
use std::str::Chars;

/// A place in an expression, and what is wrong there.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) position: usize,
    pub(super) message: String,
}

impl Fault {
    pub(super) fn new(position: usize, message: impl Into<String>) -> Self {
        Self { position, message: message.into() }
    }
}

/// A token, without its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// A keyword, a name, or a value without quotes.
    Word(String),
    /// A text in quotes, without them.
    Quoted(String),
    /// `=`, `>=` or `<`, or another sequence of these characters.
    Symbol(String),
    Open,
    Close,
    Comma,
    End,
}

impl Token {
    /// Whether this is the keyword, in any case.
    pub(super) fn is_keyword(&self, keyword: &str) -> bool {
        matches!(self, Self::Word(word) if word.eq_ignore_ascii_case(keyword))
    }

    pub(super) fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self, Self::Symbol(text) if text == symbol)
    }
}

/// Whether a word can have this character.
pub(super) fn is_word_char(character: char) -> bool {
    character.is_alphanumeric() || "_-.:+".contains(character)
}

fn is_symbol_char(character: char) -> bool {
    "=<>!".contains(character)
}

#[derive(Clone)]
pub(super) struct Lexer<'t> {
    chars: Peekable<Chars<'t>>,
    position: usize,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(expression: &'t str) -> Self {
        Self { chars: expression.chars().peekable(), position: 0 }
    }

    /// The next token and its position.
    pub(super) fn next(&mut self) -> Result<(Token, usize), Fault> {
        self.take_while(char::is_whitespace);
        let position = self.position;
        let Some(first) = self.chars.peek().copied() else { return Ok((Token::End, position)) };
        let token = match first {
            '(' => self.single(Token::Open),
            ')' => self.single(Token::Close),
            ',' => self.single(Token::Comma),
            '"' => Token::Quoted(self.quoted()?),
            first if is_word_char(first) => Token::Word(self.take_while(is_word_char)),
            first if is_symbol_char(first) => Token::Symbol(self.take_while(is_symbol_char)),
            '&' => return Err(Fault::new(position, "unexpected character; write `and`")),
            '|' => return Err(Fault::new(position, "unexpected character; write `or`")),
            _ => {
                return Err(Fault::new(
                    position,
                    "unexpected character; a text can be in double quotes",
                ));
            }
        };
        Ok((token, position))
    }

    fn advance(&mut self) -> Option<char> {
        let character = self.chars.next()?;
        self.position += 1;
        Some(character)
    }

    fn single(&mut self, token: Token) -> Token {
        self.advance();
        token
    }

    fn take_while(&mut self, is_wanted: fn(char) -> bool) -> String {
        let mut text = String::new();
        while let Some(character) = self.chars.next_if(|character| is_wanted(*character)) {
            self.position += 1;
            text.push(character);
        }
        text
    }

    fn quoted(&mut self) -> Result<String, Fault> {
        let start = self.position;
        self.advance();
        let mut text = String::new();
        loop {
            let position = self.position;
            match self.advance() {
                Some('"') => return Ok(text),
                Some('\\') => match self.advance() {
                    Some(escaped @ ('"' | '\\')) => text.push(escaped),
                    _ => return Err(Fault::new(position, "expected `\\\"` or `\\\\`")),
                },
                Some(character) => text.push(character),
                None => return Err(Fault::new(start, "the quotes are not closed")),
            }
        }
    }
}
