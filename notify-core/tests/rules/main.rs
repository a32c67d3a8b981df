//! The rules of every request, row by row (spec 2, 4, 8; B1, B2, B10 to B33).

mod campaigns;
mod devices;
mod models;
mod notifications;
mod polls;
mod properties;
mod pure;
mod queries;
mod small;
mod support;
