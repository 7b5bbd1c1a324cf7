//! Servers of every temper, as real processes.

mod conduct;
mod hostile;
mod locked;
mod older_form;
