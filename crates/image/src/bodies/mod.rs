//! Functions with two bodies: as the user's compiler flags have them, and with hooks.
//!
//! What instrumentation costs when nobody listens is not the hooks, which are nops then, but the code around them: registers
//! that a call would change, loops that are not turned into vectors. So the wrapper compiles each file of C or C++ twice and
//! links both ([`join`]); functions run in their plain bodies until a plan arms a site in the other one. Then the runtime
//! writes a jump to the hooked body over the room at the plain one's begin.

mod join;
mod object;
mod reach;
mod side;

pub use join::{Apart, join};
pub use reach::Reach;
pub(crate) use reach::{Bodies, Row};
