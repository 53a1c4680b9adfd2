//! The paper's worked examples, and random programs in every order.

mod cases;
mod figures;
mod random;
mod write;
