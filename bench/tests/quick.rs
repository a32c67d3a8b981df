//! Runs the benchmark with small numbers. Without this test, a change could break it unnoticed until the next
//! measurement.

use std::process::Command;

#[test]
fn quick_run_prints_every_row() {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_notify-bench"));
    let run = bench.args(["--quick", "--without-peers"]).output().unwrap();
    let (printed, errors) =
        (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{printed}\n{errors}");
    let table = printed.lines().filter(|line| line.starts_with('|'));
    let rows: Vec<&str> = table.filter_map(|line| line.split('|').nth(1)).map(str::trim).collect();
    let expected = [
        ("accept", 9),
        ("send", 3),
        ("web push", 2),
        ("queue", 1),
        ("fan-out", 3),
        ("audiences", 14),
        ("availability", 2),
        ("trouble", 3),
        ("memory", 1),
        ("statistics", 2),
        ("import", 2),
    ];
    assert!(rows.iter().filter(|row| **row == "console").count() > 10, "{printed}");
    for (row, lines) in expected {
        let count = rows.iter().filter(|name| **name == row).count();
        assert_eq!(count, lines, "{row}: {printed}");
    }
}
