package archtest

func init() {
	mayImportRows(`
internal: internal storage
# it asks everybody
internal/depcache/modeltest: authz identity internal storage
internal/cluster: internal/clocktest storage
# it reads every table
internal/authn: storage
internal/doccache:
internal/fieldname:
internal/loopback:
internal/spelling:
internal/secret:
internal/testidp: idp
internal/strictjson: internal/coded internal/spelling
`)
}
