//! TLS: the system's roots and the administrator's, one configuration per trust.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use rustls::ClientConfig;

use crate::outbound::{system_roots, trusting};
use crate::provider_config::ExtraRoots;

/// Most configurations kept: far more than there are trusts in use, as each changed
/// `ca_certificate` makes another.
const CONFIGS_KEPT_MAX: usize = 1_024;

/// Which roots are trusted beside the system's.
pub(crate) type Trust = Option<ExtraRoots>;

/// TLS configurations, made when first needed and shared.
#[derive(Default)]
pub(crate) struct TlsConfigs {
    configs: Mutex<HashMap<ConfigKey, Option<Arc<ClientConfig>>>>,
}

/// Trust, and the protocols offered.
type ConfigKey = (Trust, &'static [&'static str]);

impl TlsConfigs {
    /// The configuration for that trust, offering these protocols; `None` when there is no root at
    /// all, so that no certificate could be verified.
    pub(crate) fn get(
        &self,
        trust: &Trust,
        alpn: &'static [&'static str],
    ) -> Option<Arc<ClientConfig>> {
        let mut configs = self.configs.lock().expect("nothing panics under this lock");
        if configs.len() >= CONFIGS_KEPT_MAX {
            // Connections keep theirs; what is still in use is made once more.
            configs.clear();
        }
        configs.entry((trust.clone(), alpn)).or_insert_with(|| self.make(trust, alpn)).clone()
    }

    fn make(&self, trust: &Trust, alpn: &[&str]) -> Option<Arc<ClientConfig>> {
        let mut roots = system_roots();
        if let Some(extra) = trust {
            extra.add_to(&mut roots).expect("extra roots were read when they were configured");
        }
        if roots.is_empty() {
            return None;
        }
        let mut config = trusting(roots);
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Some(Arc::new(config))
    }
}
