//! The crate locks on the server at PORT.

use std::env;

use redis_lock_module::{Locks, redis::cmd};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let locks = Locks::connect(format!("redis://127.0.0.1:{}/", env::var("PORT")?)).await?;
    let hold = locks.lock("tried:rust").acquire().await?;
    assert!(hold.fence() > Some(0), "no number");
    let _: () = hold.guard(cmd("SET").arg("tried:price").arg(5)).await?;
    hold.release().await?;
    let again = locks.lock("tried:rust").try_acquire().await?;
    again.release().await?;
    println!("  Rust: locks");
    Ok(())
}
