//! axe-core finds nothing serious on any page.

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::{Context, Result, ensure};
use notify_tests::{Browser, Shop, walk};
use serde_json::Value;

use crate::{add_audience, enter, in_both_browsers};

in_both_browsers!(axe_finds_nothing_serious_in_light_and_dark);

/// The width of the page, and whether its theme is dark.
const LOOKS: [(u32, bool); 3] = [(1_280, false), (320, false), (320, true)];

/// The script of axe-core. npm installs it on first use, in the version of the lock file and without running
/// its install scripts.
fn axe() -> Result<&'static str> {
    static AXE: OnceLock<String> = OnceLock::new();
    // The tests of two browsers run concurrently, and a second `npm ci` removes what the first installed.
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(script) = AXE.get() {
        return Ok(script);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = folder.join("node_modules/axe-core/axe.min.js");
    if !script.exists() {
        let mut npm = Command::new("npm");
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]);
        let status = npm.current_dir(folder).status().context("npm (Debian: npm)")?;
        ensure!(status.success(), "npm ci: {status}");
    }
    Ok(AXE.get_or_init(|| std::fs::read_to_string(script).unwrap()))
}

async fn axe_finds_nothing_serious_in_light_and_dark(browser: &mut Browser) -> Result<()> {
    let axe = axe()?;
    // The finding, and the elements that it is about.
    let check = format!(
        "(async () => {{
            if (!window.axe) {{ {axe} }}
            const found = await axe.run(document, {{ resultTypes: ['violations'] }});
            return found.violations
                .filter(({{ impact }}) => impact === 'serious' || impact === 'critical')
                .map(({{ id, nodes }}) => `${{id}}: ` + nodes.slice(0, 3)
                    .map(({{ html, failureSummary }}) => `${{html}} ${{failureSummary}}`).join('; '));
        }})()"
    );
    let shop = Shop::open(1).await?;
    add_audience(&shop.server, "pixel-9-000").await;
    let mut findings = Vec::new();
    browser.open(&format!("{}/console/sign-in", shop.server.origin())).await?;
    look(browser, &check, "sign-in", &mut findings).await?;
    enter(browser, &shop.server).await?;
    walk(browser, shop.server.origin(), 1, async |browser, page| {
        look(browser, &check, &page.path, &mut findings).await
    })
    .await?;
    let missing = format!("{}/console/apps/x", shop.server.origin());
    browser.open(&missing).await?;
    look(browser, &check, "an error page", &mut findings).await?;
    // No link leads to pages with problems at their fields.
    for (page, field, button) in [
        ("segments/edit", "#audience", "button[value=count]"),
        ("send", "#audience", "button[value=preview]"),
    ] {
        browser.open(&crate::of_app(&shop.server, &format!("/{page}"))).await?;
        browser.click(field).await?;
        browser.type_text("plan ! pro").await?;
        browser.follow(button).await?;
        browser.shows("document.querySelector('.place') !== null").await?;
        look(browser, &check, &format!("{page} with a wrong condition"), &mut findings).await?;
    }
    ensure!(findings.is_empty(), "{}", findings.join("\n"));
    shop.close().await;
    Ok(())
}

/// Checks the open page in each look.
async fn look(
    browser: &mut Browser,
    check: &str,
    path: &str,
    findings: &mut Vec<String>,
) -> Result<()> {
    for (width, is_dark) in LOOKS {
        browser.resize(width, 800).await?;
        browser.set_dark(is_dark).await?;
        let found: Value = browser.run(check).await?;
        for finding in found.as_array().context("a list")? {
            let theme = if is_dark { "dark" } else { "light" };
            findings.push(format!("{path} ({width}, {theme}): {finding}"));
        }
    }
    Ok(())
}
