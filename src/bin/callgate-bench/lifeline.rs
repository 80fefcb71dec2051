//! Ends a helper process when whoever started it is gone.
//!
//! The parent holds the other end of standard input and never writes to it. Never ends anything else.

use std::io::Read;

use tokio::sync::oneshot;

/// Resolves when standard input ends. Without `held`, never.
pub(crate) async fn cut(held: bool) {
    if !held {
        return std::future::pending().await;
    }
    let (gone, told) = oneshot::channel();
    std::thread::spawn(move || {
        let mut sink = Vec::new();
        // Whatever comes, the end of it is what matters.
        let _ = std::io::stdin().lock().read_to_end(&mut sink);
        let _ = gone.send(());
    });
    let _ = told.await;
}
