//! Places in objects.

use std::fmt::{self, Display, Write as _};

/// A place in an object: lives on the stack, and is only written out when something is wrong there.
#[derive(Clone, Copy)]
pub(crate) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// A field of what is at `parent`, or of the object itself.
    pub(crate) fn field(parent: Option<&'a Path<'a>>, name: &'a str) -> Self {
        Path { parent, step: Step::Field(name) }
    }

    /// An element of the list at `parent`, or of the list that the document is.
    pub(crate) fn element(parent: Option<&'a Path<'a>>, at: usize) -> Self {
        Path { parent, step: Step::Index(at) }
    }

    /// The names of the fields alone, joined by dots.
    pub(crate) fn field_names(&self) -> String {
        let parent = self.parent.map(Path::field_names).unwrap_or_default();
        match self.step {
            Step::Field(name) if parent.is_empty() => name.to_owned(),
            Step::Field(name) => format!("{parent}.{name}"),
            Step::Index(_) | Step::Key(_) => parent,
        }
    }

    pub(crate) fn new(field: &'a str) -> Self {
        Path { parent: None, step: Step::Field(field) }
    }

    pub(crate) fn child(&'a self, field: &'a str) -> Self {
        Path { parent: Some(self), step: Step::Field(field) }
    }

    pub(crate) fn index(&'a self, at: usize) -> Self {
        Path { parent: Some(self), step: Step::Index(at) }
    }

    pub(crate) fn key(&'a self, key: &'a str) -> Self {
        Path { parent: Some(self), step: Step::Key(key) }
    }
}

impl Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
            if matches!(self.step, Step::Field(_)) {
                f.write_char('.')?;
            }
        }
        match self.step {
            Step::Field(name) => f.write_str(name),
            Step::Index(at) => write!(f, "[{at}]"),
            Step::Key(key) => write!(f, "[{key}]"),
        }
    }
}
