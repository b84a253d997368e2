//! The pages in a real browser: headless Chromium, driven through chromedriver.
//!
//! [`fake`] serves the real pages over a scripted API, for what can't be forced on the real server: answers
//! that get lost, delays, an unknown outcome. The [`steps`] take a base address, so that they run against
//! either. Waiting is always for a condition, with a deadline.

mod buying;
mod fake;
mod looking;
mod ordering;
mod steps;
mod webdriver;
