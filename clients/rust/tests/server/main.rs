//! On a real server with the module: REDIS_SERVER says which, REDIS_LOCK_MODULE where the module is.

mod cluster;
mod fleet;
mod giving_up;
mod habits;
mod loading;
mod losing;
mod options;
mod proxy;
mod replicas;
mod support;
mod trouble;
mod unanswered;
mod without_module;
