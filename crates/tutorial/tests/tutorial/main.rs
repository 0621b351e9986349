//! The tutorial, done by a reader who makes no mistakes: everything is typed, and everything is
//! tried.

mod shop;
mod tried;
mod typed;
