//! Whole outputs from an exact fake finding, as snapshots and as rules that hold for every variant.

mod browser;
mod experiment;
mod fixture;
mod forwarding;
mod html;
mod links;
mod pages;
mod reference;
mod rfc2544;
mod routers;
mod screens;
mod sources;
mod svg;
mod table;
mod terminal;
mod transfers;
mod words;
