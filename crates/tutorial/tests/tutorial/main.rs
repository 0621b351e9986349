//! The tutorial: its code and its commands are tested to the letter.

mod shop;
mod tried;
mod typed;
