//! Runs the self-contained examples: each checks its own outcome.

#[path = "../examples/approval.rs"]
mod approval;
#[path = "../examples/award.rs"]
mod award;
#[path = "../examples/basket.rs"]
mod basket;
#[path = "../examples/newsletter.rs"]
mod newsletter;
#[path = "../examples/reminder.rs"]
mod reminder;
#[path = "../examples/saga.rs"]
mod saga;
#[path = "../examples/year.rs"]
mod year;

#[test]
fn an_award_is_made_once_within_its_quota() {
    award::main().expect("the example runs to its end");
}

#[test]
fn a_basket_is_filled_by_two_and_stays_closed() {
    basket::main().expect("the example runs to its end");
}

#[test]
fn a_year_is_closed() {
    year::main().expect("the example runs to its end");
}

#[test]
fn a_payment_waits_for_approval() {
    approval::main().expect("the example runs to its end");
}

#[test]
fn a_newsletter_is_sent_once_to_each() {
    newsletter::main().expect("the example runs to its end");
}

#[test]
fn a_reminder_sleeps_for_weeks() {
    reminder::main().expect("the example runs to its end");
}

#[test]
fn the_saga_compensates_its_steps() {
    saga::main().expect("the example runs to its end");
}
