package archtest

func init() {
	mayImportRows(`
idp: internal/breaker internal/clocktest internal/modeltest internal/coded internal/fieldname internal/keytab internal/authn internal/loopback internal/ratelimit internal/secret internal/jwa internal/mldsa internal/strictjson internal/webpage
idp/saml/safexml:
`)
}
