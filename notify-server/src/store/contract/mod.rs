//! What every backend promises, one check a promise; run for each backend by `store_contract!`.
