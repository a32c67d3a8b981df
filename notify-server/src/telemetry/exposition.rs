//! The two forms of the metrics: the text format of Prometheus (version 0.0.4), which every reader
//! takes, and `OpenMetrics` for those that ask for it.

/// A form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Prometheus text format 0.0.4.
    Prometheus,
    /// `OpenMetrics` 1.0.
    OpenMetrics,
}

impl Form {
    /// What an `Accept` header asks for; Prometheus' own format unless it names the other.
    pub(crate) fn of(accept: Option<&str>) -> Self {
        match accept {
            Some(accept) if accept.contains("application/openmetrics-text") => Self::OpenMetrics,
            Some(_) | None => Self::Prometheus,
        }
    }

    /// Its content type.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The form of what was written as `OpenMetrics`.
    pub(super) fn render(self, open_metrics: String) -> String {
        match self {
            Self::OpenMetrics => open_metrics,
            Self::Prometheus => prometheus(&open_metrics),
        }
    }
}

/// In Prometheus' format a family has the name of its samples, ending included; it knows neither
/// units, nor `info`, nor an end of the text.
fn prometheus(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut help: Option<(&str, &str)> = None;
    for line in open_metrics.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            help = described.split_once(' ');
        } else if let Some(typed) = line.strip_prefix("# TYPE ") {
            let (name, kind) = typed.split_once(' ').unwrap_or((typed, "untyped"));
            let (ending, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                kind => ("", kind),
            };
            if let Some((of, help)) = help.take()
                && of == name
            {
                text.push_str(&format!("# HELP {name}{ending} {help}\n"));
            }
            text.push_str(&format!("# TYPE {name}{ending} {kind}\n"));
        } else if !line.starts_with('#') {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_prometheus_own_unless_the_other_is_asked_for() {
        let scraper = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4";
        for (accept, form) in [
            (None, Form::Prometheus),
            (Some("*/*"), Form::Prometheus),
            (Some("text/plain"), Form::Prometheus),
            (Some(scraper), Form::OpenMetrics),
        ] {
            assert_eq!(Form::of(accept), form, "{accept:?}");
        }
    }

    #[test]
    fn a_family_is_described_under_the_name_of_its_samples() {
        let open_metrics = "# HELP notify_build What is running.\n# TYPE notify_build info\n\
            notify_build_info{version=\"1\"} 1\n# HELP notify_a A thing.\n# TYPE notify_a counter\n\
            notify_a_total{b=\"c\"} 2\n# HELP notify_d_seconds D.\n# TYPE notify_d_seconds gauge\n\
            # UNIT notify_d_seconds seconds\nnotify_d_seconds 0.5\n# EOF\n";
        let expected = "# HELP notify_build_info What is running.\n\
            # TYPE notify_build_info gauge\nnotify_build_info{version=\"1\"} 1\n\
            # HELP notify_a_total A thing.\n# TYPE notify_a_total counter\n\
            notify_a_total{b=\"c\"} 2\n# HELP notify_d_seconds D.\n\
            # TYPE notify_d_seconds gauge\nnotify_d_seconds 0.5\n";
        assert_eq!(Form::Prometheus.render(open_metrics.to_owned()), expected);
        assert_eq!(Form::OpenMetrics.render(open_metrics.to_owned()), open_metrics);
    }
}
