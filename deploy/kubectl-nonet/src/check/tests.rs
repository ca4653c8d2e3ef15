//! Tables of facts and what is concluded from them.
