//! A program beside which Tidelock has to resolve; it is never built.
