//! The pages in a real browser: headless Chromium, driven through chromedriver.
//!
//! The `real_*` tests drive the whole server, and ask its ledger afterwards what was sold. [`fake`] serves the
//! real pages over a scripted API, for what can't be forced on the real server: answers that get lost, delays,
//! an unknown outcome. The [`steps`] take a base address, so that they run against either. Waiting is always
//! for a condition, with a deadline.

mod addresses;
mod axe;
mod buy_button;
mod buying;
mod console;
mod console_acts;
mod console_answers;
mod console_charts;
mod console_cluster;
mod console_forms;
mod console_late;
mod console_presses;
mod console_report;
mod console_together;
mod console_verdict;
mod fake;
mod fake_console;
mod joining;
mod languages;
mod line;
mod line_waits;
mod looking;
mod phone;
mod plain;
mod real;
mod real_buying;
mod real_states;
mod real_visitors;
mod shop_look;
mod steps;
mod truth;
mod verifying;
mod webdriver;
