//! The model of scale: what it prints is what its document shows, and it takes other questions.

use std::path::Path;
use std::process::{Command, Output};

const BEGIN: &str = "<!-- scale-model -->\n";
const END: &str = "<!-- /scale-model -->\n";

fn model(arguments: &[&str]) -> Output {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_notify-bench"));
    bench.arg("scale-model").args(arguments).output().expect("the benchmark runs")
}

#[test]
fn the_document_shows_what_the_model_says() {
    let run = model(&[]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let printed = format!("\n{}\n", String::from_utf8(run.stdout).unwrap());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/scale.md");
    let document = std::fs::read_to_string(&path).unwrap();
    let (head, rest) = document.split_once(BEGIN).unwrap();
    let (shown, foot) = rest.split_once(END).unwrap();
    if std::env::var_os("NOTIFY_WRITE_DOCS").is_some() {
        std::fs::write(&path, format!("{head}{BEGIN}{printed}{END}{foot}")).unwrap();
        return;
    }
    assert!(shown == printed, "run this test with NOTIFY_WRITE_DOCS=1 and look at the change");
}

#[test]
fn another_question_has_another_answer() {
    let run = model(&["--devices", "3600", "--minutes", "1", "--a-day", "0"]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let printed = String::from_utf8(run.stdout).unwrap();
    let row = printed.lines().find(|line| line.contains("deliveries a second of a broadcast"));
    let cell = row.and_then(|row| row.split('|').nth(2)).map(str::trim);
    assert_eq!(cell, Some("60"), "{printed}");
    for wrong in [["--devices", "0"], ["--minutes", "0"], ["--minutes", "-1"], ["--a-day", "x"]] {
        assert!(!model(&wrong).status.success(), "{wrong:?}");
    }
}
