//! The paper's worked examples, and random programs in every order.

mod figures;
mod random;
mod write;
