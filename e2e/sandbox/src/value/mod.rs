//! JSON values, what is wrong with them, and the syntax of their texts.

pub(crate) mod errors;
pub(crate) mod gates;
pub(crate) mod json;
pub(crate) mod object;
pub(crate) mod path;
pub(crate) mod selector;
pub(crate) mod syntax;
