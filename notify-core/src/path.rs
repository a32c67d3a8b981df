//! Where in a body something stands, in the body's own names: `features[2].data.url`.

use std::fmt::{self, Display, Formatter};

/// Longest part of a caller's name that a message quotes, in characters.
const NAME_QUOTED_CHARS_MAX: usize = 64;

/// A place in a body; costs nothing until it is written into a message.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Path<'p> {
    /// The body itself.
    Root,
    /// A member of an object.
    Field(&'p Path<'p>, &'p str),
    /// An element of a list.
    Index(&'p Path<'p>, usize),
}

/// The body itself.
pub(crate) static ROOT: Path<'static> = Path::Root;

/// A field of the body.
pub(crate) fn path(name: &str) -> Path<'_> {
    Path::Field(&ROOT, name)
}

impl Path<'_> {
    pub(crate) fn field<'s>(&'s self, name: &'s str) -> Path<'s> {
        Path::Field(self, name)
    }

    pub(crate) fn index(&self, index: usize) -> Path<'_> {
        Path::Index(self, index)
    }

    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Path::Root, name) => Quoted(name).fmt(f),
            Self::Field(parent, name) => {
                parent.write(f)?;
                write!(f, ".{}", Quoted(name))
            }
            Self::Index(parent, index) => {
                parent.write(f)?;
                write!(f, "[{index}]")
            }
        }
    }
}

impl Display for Path<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("body"),
            Self::Field(..) | Self::Index(..) => self.write(f),
        }
    }
}

/// A caller's own name in a message: shortened, without control characters; `""` when empty.
pub(crate) struct Quoted<'n>(pub(crate) &'n str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("\"\"");
        }
        for (count, c) in self.0.chars().enumerate() {
            if count == NAME_QUOTED_CHARS_MAX {
                return f.write_str("…");
            }
            let c = if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
            write!(f, "{c}")?;
        }
        Ok(())
    }
}
