//! Pure decisions that the loops share.

pub mod ports;
pub mod subsets;
pub mod trigger;
pub mod write_order;
