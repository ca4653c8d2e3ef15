//! What the loops decide by in the same way: pure.

pub mod ports;
pub mod subsets;
pub mod trigger;
pub mod write_order;
