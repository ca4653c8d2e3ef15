//! The modules of a process around its loops, for binaries, tools and tests. No controller uses them.

pub use nonet_client::{batch, client, history};
pub use nonet_control::leader;
pub use nonet_platform::{pace, panics, version};
pub use nonet_service::{built_in_flags, logging, server};
