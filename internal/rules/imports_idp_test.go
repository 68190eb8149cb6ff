package rules

func init() {
	mayImportRows(`
idp: internal/breaker internal/keytab internal/login internal/loopback internal/pace internal/secret internal/signature internal/strictjson internal/webpage
idp/saml/frontdoor:
`)
}
