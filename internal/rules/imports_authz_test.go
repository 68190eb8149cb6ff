package rules

func init() {
	mayImportRows(`
authz: internal storage
authz/assertion: authz/keys internal
authz/certificate:
authz/client: authz/certificate authz/oauth internal
authz/consent: authz/client authz/details internal storage
authz/details: internal
authz/device: authz/client authz/consent authz/grant authz/oauth authz/registry authz/reply authz/token internal storage
authz/dpop: authz/oauth internal storage
authz/envelope: authz/client authz/keys internal
authz/exchange: authz/client authz/grant authz/keys authz/oauth authz/registry authz/reply authz/token internal storage
authz/grant: authz/client authz/consent authz/envelope authz/oauth authz/personal authz/registry authz/reply authz/token authz/visit internal storage
authz/idjag: authz/client authz/grant authz/oauth authz/registry authz/reply authz/token authz/trust internal storage
authz/jar: authz/client authz/oauth internal
authz/keys: internal storage
authz/keyset:
authz/metadoc: authz/client authz/oauth internal
authz/oauth: internal storage
authz/par: authz/client authz/oauth authz/registry authz/reply internal storage
authz/parked: internal storage
authz/personal: authz/client authz/oauth authz/registry authz/token internal storage
authz/registration: authz/client authz/metadoc authz/oauth authz/registry authz/reply authz/token internal storage
authz/registry: authz/certificate authz/client authz/details authz/keyset authz/metadoc authz/oauth authz/trust internal storage
authz/reply:
authz/signal: authz/client authz/keys authz/oauth authz/registry authz/reply authz/token internal storage
authz/site: authz/oauth authz/token internal storage
authz/token: authz/client authz/details authz/envelope authz/keys authz/oauth authz/registry authz/verified internal storage
authz/trust: authz/client authz/keyset authz/oauth internal storage
authz/verified: internal
authz/visit: authz/client authz/keys authz/oauth authz/registry authz/token internal storage
`)
}
