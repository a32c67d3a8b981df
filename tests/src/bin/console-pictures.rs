//! Writes pictures of the console's pages, light and dark, as PNG: `console-pictures FOLDER [WIDTH]`. The
//! pages are those that [`walk`] finds in a [`Shop`].

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use notify_tests::{Browser, BrowserKind, Shop, sign_in, walk};

/// The days of the shop's history.
const DAYS: usize = 30;
/// The size of a picture. Longer pages are cut off.
const WIDTH: u32 = 1_280;
const HEIGHT: u32 = 800;
const HEIGHT_MAX: u32 = 780;

/// The shapes of the pages that show more than another page with the same name.
const PREFERRED: [&str; 1] = ["apps/ID/send?from"];

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().context("usage: console-pictures FOLDER [WIDTH]")?);
    let width = arguments.next().map_or(Ok(WIDTH), |width| width.parse())?;
    std::fs::create_dir_all(&folder)?;
    let shop = Shop::open(DAYS).await?;
    let mut browser = Browser::start(BrowserKind::Chromium).await?;
    browser.resize(width, HEIGHT).await?;
    let origin = shop.server.origin();
    browser.open(&format!("{origin}/console/sign-in")).await?;
    take(&mut browser, &folder, "sign-in").await?;
    sign_in(&mut browser, origin, &shop.admin_key).await?;
    let mut taken = HashSet::new();
    walk(&mut browser, origin, 1, async |browser, page| {
        let name = page.name();
        if taken.insert(name.clone()) || PREFERRED.contains(&page.shape().as_str()) {
            take(browser, &folder, &name).await?;
        }
        Ok(())
    })
    .await?;
    browser.open(&format!("{origin}/console/apps/unknown")).await?;
    take(&mut browser, &folder, "not-found").await?;
    browser.stop().await?;
    shop.close().await;
    Ok(())
}

/// Takes the pictures of the open page.
async fn take(browser: &mut Browser, folder: &Path, name: &str) -> Result<()> {
    for (is_dark, theme) in [(true, "dark"), (false, "light")] {
        browser.set_dark(is_dark).await?;
        let png = browser.screenshot(HEIGHT_MAX).await?;
        std::fs::write(folder.join(format!("{name}-{theme}.png")), png)?;
    }
    Ok(())
}
