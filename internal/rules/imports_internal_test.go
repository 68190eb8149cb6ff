package rules

func init() {
	mayImportRows(`
internal: internal storage
# it asks everybody
internal/answers/modeltest: authz identity internal storage
internal/cluster: storage
# it reads every table
internal/login: storage
internal/loopback:
internal/near:
internal/secret:
internal/standins: idp
internal/strictjson: internal/near
`)
}
