//! The examples that need nothing but themselves do what they say: each checks its own outcome.

#[path = "../examples/year.rs"]
mod year;

#[test]
fn a_year_is_closed() {
    year::main().expect("the example runs to its end");
}
